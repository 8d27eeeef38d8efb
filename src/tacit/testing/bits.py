"""ANDs of secret bits, and bits times ring elements."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from ..protocols import BitSum, Bool, Protocol
from ..runtime import Session
from .division import factor_bits
from .expect import expect, expect_quotient
from .values import SIZES, bit_values, integers, ring_values, secret, secret_bits, small


def _inputs(p: Protocol, count: int, n: int, width: int) -> tuple[list[Tensor], list[Bool]]:
    """Returns bits that are mostly ones, so that their AND is not always zero."""
    plain = [
        bit_values((n,), f"and {i}", width) | bit_values((n,), f"or {i}", width)
        for i in range(count)
    ]
    return plain, [secret_bits(p, bits, i) for i, bits in enumerate(plain)]


def check_and(session: Session) -> None:
    """The AND of 2 to 9 inputs."""
    p = session.protocol
    for n in SIZES:
        plain, secrets = _inputs(p, 9, n, 1)
        for fan_in in range(2, 10):
            wanted = reduce(torch.bitwise_and, plain[:fan_in])[0].bool()
            found = p.bit_and(*secrets[:fan_in])
            expect(p, found, wanted, f"AND of {fan_in} bits, {n} elements")


def check_and_of_planes(session: Session) -> None:
    """Several bits for each element at once, on results of other gates."""
    p = session.protocol
    plain, (x, y, z) = _inputs(p, 3, 70, 4)
    places = torch.arange(4)[:, None]
    a, b, c = ((bits << places).sum(0) for bits in plain)
    expect(p, p.bit_and(x, y), a & b, "AND of planes")
    expect(p, p.bit_and(x, x), a, "AND with itself")
    expect(p, p.bit_and(x, p.bit_not(x)), a * 0, "AND with its negation")
    deep = p.bit_and(p.bit_xor(p.bit_and(x, y), z), p.bit_not(y), x)
    expect(p, deep, ((a & b) ^ c) & (15 - b) & a, "AND of ANDs")


def check_inject(session: Session) -> None:
    """x where the bit is one, and zero elsewhere."""
    p = session.protocol
    for n in SIZES:
        value, bits = ring_values(p.ring, (n,), "inject"), bit_values((n,), "inject")
        for owner in range(session.parties):
            x, b = secret(p, value, owner), secret_bits(p, bits, owner + 1)
            expect(p, p.inject(b, x), value * bits[0], f"inject, {n} elements")
    x = secret(p, value, 1)
    expect(p, p.inject(p.pack(bits[0]), x), value * bits[0], "inject of public bits")
    expect(p, p.inject(b, p.public(value)), value * bits[0], "inject of public values")
    y = p.inject(p.bit_not(p.sign(x)), x)
    expect(p, y, value.clamp(min=0), "the positive part")
    expect(p, p.inject(b, p.inject(b, y)), value.clamp(min=0) * bits[0], "inject of an injection")


def check_inject_of_quotients(session: Session) -> None:
    """An injection makes a pending division."""
    p = session.protocol
    bits, t = factor_bits(p), 3
    a, x = small(p, (130,), "a", bits)
    b, y = small(p, (130,), "bb", bits)
    flags = bit_values((130,), "flags")
    f, dividend = secret_bits(p, flags, 2), integers(a) * integers(b) * integers(flags[0])
    found = p.inject(f, p.mul(x, y, shift=t))
    expect_quotient(p, found, dividend, t, "inject of a product, divided")
    total = p.add(p.mul(x, y, shift=t), p.mul(x, y, shift=t))
    expect_quotient(p, p.inject(f, total), 2 * dividend, t, "inject of a sum", units=2)
    z = p.mul(x, y, shift=t)
    relu = p.inject(p.bit_not(p.sign(z)), z)
    wanted = integers((a * b).clamp(min=0))
    expect_quotient(p, relu, wanted, t, "the positive part of a product, divided")


def check_inject_sums(session: Session) -> None:
    """Sums of several bits with public coefficients, with and without x."""
    p = session.protocol
    value, x = small(p, (2, 35), "sums", 12)
    plain = [bit_values((2, 35), f"sums {i}") for i in range(3)]
    bits = [secret_bits(p, b, i) for i, b in enumerate(plain)]
    rows = [
        BitSum((1, 0, -3), (0, 5, 2)),
        BitSum((0, 0, 0), (1, 2, 4)),
        BitSum((0, 7, 0), (-1, 0, 0)),
        BitSum((0, 0, 0), (0, 0, 0)),
    ]
    for found, row in zip(p.inject_sums(bits, x, rows), rows, strict=True):
        terms = zip(plain, row.scales, row.offsets, strict=True)
        wanted = sum(((o + s * value) * b[0] for b, s, o in terms), torch.zeros_like(value))
        expect(p, found, wanted.to(p.ring.dtype), f"inject_sums of {row}")
        expect(p, p.sign(found), wanted < 0, f"the sign of inject_sums of {row}")
    [count] = p.inject_sums(bits, None, [BitSum((0, 0, 0), (1, 1, 1))])
    expect(p, count, torch.stack([b[0] for b in plain]).sum(0).to(p.ring.dtype), "a count of bits")


def check_inject_sums_of_quotients(session: Session) -> None:
    """A sum of injections with a pending x."""
    p = session.protocol
    bits, t = factor_bits(p) - 1, 3
    a, x = small(p, (65,), "a", bits)
    flags = bit_values((65,), "flags")
    f = secret_bits(p, flags, 1)
    [found] = p.inject_sums([f], p.square(x, shift=t), [BitSum((2,), (7,))])
    dividend = (2 * integers(a) ** 2 + (7 << t)) * integers(flags[0])
    expect_quotient(p, found, dividend, t, "inject_sums of a quotient", units=2)


CHECKS = (
    check_and,
    check_and_of_planes,
    check_inject,
    check_inject_of_quotients,
    check_inject_sums,
    check_inject_sums_of_quotients,
)
