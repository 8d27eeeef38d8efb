"""Signs, thresholds and equality: every width, the ends of every range."""

from __future__ import annotations

import torch

from ..errors import ConfigError
from ..runtime import Session
from .division import dividend_bits, factor_bits
from .expect import expect, expect_error, expect_true, plain_of
from .values import SIZES, edges, integers, ring_values, secret, small


def check_signs_of_any_value(session: Session) -> None:
    """The whole ring, including its smallest number."""
    p = session.protocol
    for n in SIZES:
        for owner in range(session.parties):
            value = ring_values(p.ring, (n,), "sign")
            expect(p, p.sign(secret(p, value, owner)), value < 0, f"sign of {n} elements")
    value = torch.tensor(edges(p.ring), dtype=p.ring.dtype)
    x = p.mul(secret(p, value), p.public(torch.ones_like(value)))
    expect(p, p.sign(x), value < 0, "sign of a product")


def check_signs_of_every_width(session: Session) -> None:
    """Signs are right up to both ends of a promise of m bits, for every m."""
    p = session.protocol
    for bits in range(p.ring.bits):
        value = torch.tensor(edges(p.ring, bits) * 2, dtype=p.ring.dtype)
        x = secret(p, value, bits, limit=(1 << bits) - 1)
        expect(p, p.sign(x), value < 0, f"sign of {bits} bits")


def check_promises(session: Session) -> None:
    """Limits of results follow from those of operands: a window that is too narrow fails."""
    p = session.protocol
    value, x = small(p, (2, 40), "promise", 3)
    ends = torch.full((2, 40), 7, dtype=p.ring.dtype)
    top = secret(p, ends, 1, limit=7)
    wide = {
        "add": (p.add(top, top), ends + ends),
        "sub": (p.sub(p.neg(top), top), -ends - ends),
        "add_public": (p.add_public(top, -15), ends - 15),
        "mul_public": (p.mul_public(top, -9), ends * -9),
        "scaled": (top.scaled(-9), ends * -9),
        "sum": (p.neg(top.sum(1)), -ends.sum(1, dtype=ends.dtype)),
        "cumsum": (p.neg(top.cumsum(1)), -ends.cumsum(1, dtype=ends.dtype)),
        "mul": (p.mul(p.neg(top), top), -ends * ends),
        "matmul": (
            p.matmul(p.neg(top), top.transpose(0, 1)),
            torch.full((2, 2), -49 * 40, dtype=ends.dtype),
        ),
        "public": (p.public(-ends), -ends),
        "promise": (x.promise(1 << 9), value),
    }
    for name, (share, wanted) in wide.items():
        expect_true(p, integers(wanted).__abs__().max() <= share.limit, f"the limit after {name}")
        expect(p, p.sign(share), wanted < 0, f"sign after {name}")


def check_signs_of_quotients(session: Session) -> None:
    """The sign of a pending quotient is that of the quotient, rounded down or up."""
    p = session.protocol
    bits, t = factor_bits(p), 3
    a, x = small(p, (130,), "a", bits)
    b, y = small(p, (130,), "bb", bits)
    for z in (p.mul(x, y, shift=t), p.settled(p.mul(x, y, shift=t))):
        found = plain_of(p, p.sign(z))
        wanted, clear = a * b < 0, (a * b).abs() >= 1 << t
        expect_true(p, found[clear] == wanted[clear], "sign of a product, divided")
        expect_true(p, ~found[a * b >= 0], "no quotient of a positive number is negative")
    value, x = small(p, (130,), "large", dividend_bits(p))
    clear = value.abs() >= 1 << t
    found = plain_of(p, p.sign(x.divided(t)))
    expect_true(p, found[clear] == (value < 0)[clear], "sign of a large quotient")


def check_ignored_bits(session: Session) -> None:
    """`low` may only change the sign of small negative numbers."""
    p = session.protocol
    value, x = small(p, (130,), "low", 15)
    for low in (1, 4):
        found = plain_of(p, p.sign(x, low=low))
        clear = (value >= 0) | (value < -(1 << low))
        expect_true(p, found[clear] == (value < 0)[clear], f"sign, low={low}")


def check_thresholds(session: Session) -> None:
    """Several public thresholds at once, inside and outside of the range."""
    p = session.protocol
    for n in SIZES:
        value, x = small(p, (n,), "thresholds", 10)
        for thresholds in ([0], [5], [-1023, -7, 0, 1, 1023], [4096, -4096, 3]):
            found = p.signs(x, thresholds)
            expect_true(p, len(found) == len(thresholds), "one answer for each threshold")
            for bit, t in zip(found, thresholds, strict=True):
                expect(p, bit, value < t, f"[x < {t}] of {n} elements")
    expect_true(p, p.signs(x, []) == [], "no threshold, no answer")


def check_thresholds_of_quotients(session: Session) -> None:
    """Thresholds have the scale of the quotient."""
    p = session.protocol
    bits, t = min(factor_bits(p), 10), 3
    a, x = small(p, (130,), "a", bits)
    b, y = small(p, (130,), "bb", bits)
    thresholds = [0, 2, -2]
    bits_found = p.signs(p.mul(x, y, shift=t), thresholds)
    for found, threshold in zip(bits_found, thresholds, strict=True):
        off = a * b - (threshold << t)
        clear = off.abs() >= 1 << t
        plain = plain_of(p, found)
        expect_true(p, plain[clear] == (off < 0)[clear], f"[x / 8 < {threshold}]")


def check_equality(session: Session) -> None:
    """[x = 0], for the whole ring and for every width."""
    p = session.protocol
    for n in SIZES:
        value = ring_values(p.ring, (n,), "zero")
        expect(p, p.is_zero(secret(p, value, 1)), value == 0, f"is_zero of {n} elements")
    for bits in range(p.ring.bits):
        powers = [1 << i for i in range(bits)]
        value = torch.tensor([0, *edges(p.ring, bits), *powers], dtype=p.ring.dtype)
        x = secret(p, value, bits, limit=(1 << bits) - 1)
        expect(p, p.is_zero(x), value == 0, f"is_zero of {bits} bits")
    z = p.mul(secret(p, value, 1), secret(p, value * 0, 2), shift=3)
    expect(p, p.is_zero(z), value * 0 == 0, "is_zero of a quotient")


def check_nothing_left(session: Session) -> None:
    """Ignoring all bits raises ConfigError or returns bits; the session goes on."""
    p = session.protocol
    value, x = small(p, (3,), "nothing", 8)
    if p.name != "cleartext":
        expect_error(ConfigError, lambda: p.sign(x, low=p.ring.bits), "sign without a bit")
    expect(p, p.sign(x), value < 0, "the session goes on")


CHECKS = (
    check_signs_of_any_value,
    check_signs_of_every_width,
    check_promises,
    check_signs_of_quotients,
    check_ignored_bits,
    check_thresholds,
    check_thresholds_of_quotients,
    check_equality,
    check_nothing_left,
)
