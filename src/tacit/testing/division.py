"""Division by powers of two: pending, carried out, and after sums of pending quotients."""

from __future__ import annotations

from ..protocols import Protocol
from ..runtime import Session
from .expect import expect, expect_quotient, expect_true, plain_of
from .values import integers, ring_values, secret, small


def dividend_bits(p: Protocol) -> int:
    """Returns the bits of the largest dividend: all that is allowed, or what hardly ever fails."""
    if p.exact:
        return p.ring.bits - 2
    return 20 if p.ring.bits == 64 else 5


def factor_bits(p: Protocol) -> int:
    """Returns the bits of the two factors of a product, with room to add four products."""
    return dividend_bits(p) // 2 - 1


def check_truncate(session: Session) -> None:
    """Division by different numbers of bits, up to the largest dividend."""
    p = session.protocol
    bits = dividend_bits(p)
    for t in sorted({1, 2, 5, bits // 2, bits - 1, bits}):
        for owner in range(session.parties):
            value = ring_values(p.ring, (65,), f"t {t}", bits)
            x = secret(p, value, owner, limit=(1 << bits) - 1)
            found = p.truncate(x.divided(t))
            expect_quotient(p, found, integers(value), t, f"truncate by {t} bits")
            expect_true(p, found.pending == 0, "nothing is pending after truncate")
            half = ((1 << bits) - 1 >> t) + 1
            expect_true(p, found.limit <= half, "the quotient's limit is that of a quotient")
    expect(p, p.truncate(x), value, "truncate with nothing pending")


def check_exact_quotients(session: Session) -> None:
    """If the dividend is a multiple, nothing is rounded."""
    p = session.protocol
    bits = dividend_bits(p) // 2
    value = ring_values(p.ring, (65,), "whole", bits)
    x = secret(p, value << 2, 1, limit=1 << (bits + 2))
    expect(p, p.truncate(x.divided(2)), value, "whole quotients are exact")


def check_truncation_modes(session: Session) -> None:
    """`exact=` selects the mode of one division."""
    p = session.protocol
    value, x = small(p, (65,), "ways", 5)
    for exact in (True, False):
        found = p.truncate(x.divided(3), exact=exact)
        expect_quotient(p, found, integers(value), 3, f"truncate, exact={exact}")


def check_products(session: Session) -> None:
    """A pending product can be revealed, settled and multiplied, and is settled once."""
    p = session.protocol
    bits, t = factor_bits(p), 3
    a, x = small(p, (70,), "a", bits)
    b, y = small(p, (70,), "bb", bits)
    dividend = integers(a) * integers(b)
    z = p.mul(x, y, shift=t)
    expect_quotient(p, z, dividend, t, "a product, revealed")
    expect_true(p, z.pending == 0, "what was revealed is settled")
    expect_quotient(p, p.mul(x, y, shift=t), dividend, t, "the same product")
    z = p.mul(x, y, shift=t)
    expect_true(p, p.settled(z) is z, "settled gives the share itself")
    with session.stats.scope("again") as cost:
        p.settled(z)
    expect_true(p, cost.messages == 0, "a second settling is free")
    plain = plain_of(p, z)
    expect(p, p.mul(z, z), plain * plain, "the product of a settled quotient")
    matrix = p.matmul(x.reshape(1, 70)[:, :2], y.reshape(70, 1)[:2], shift=t)
    wanted = integers(a[None, :2]) @ integers(b[:2, None])
    expect_quotient(p, matrix, wanted, t, "a product of matrices, divided")
    expect_quotient(p, p.square(x, shift=t), integers(a) ** 2, t, "a square, divided")


def check_sums_of_quotients(session: Session) -> None:
    """Sums of pending quotients, and with public operands."""
    p = session.protocol
    bits, t = factor_bits(p) - 1, 3
    a, x = small(p, (70,), "a", bits)
    b, y = small(p, (70,), "bb", bits)
    c, d = integers(a), integers(b)

    one, other = p.mul(x, y, shift=t), p.square(y, shift=t)
    expect_quotient(p, p.add(one, other), c * d + d * d, t, "a sum", units=2)
    one, other = p.mul(x, y, shift=t), p.square(y, shift=t)
    expect_quotient(p, p.sub(one, other), c * d - d * d, t, "a difference", units=2)
    expect_quotient(p, p.neg(p.mul(x, y, shift=t)), -c * d, t, "a negation")
    mixed = p.add(p.mul(x, y, shift=t), x)
    expect_quotient(p, mixed, c * d + c * 2**t, t, "a quotient plus a secret")
    mixed = p.sub(x, p.mul(x, y, shift=t))
    expect_quotient(p, mixed, c * 2**t - c * d, t, "a secret minus a quotient")
    mixed = p.add(p.mul(x, y, shift=t), p.mul(x, y, shift=1))
    wanted = c * d + c * d * 2 ** (t - 1)
    expect_quotient(p, mixed, wanted, t, "quotients by different powers", units=2)
    shifted = p.add_public(p.mul(x, y, shift=t), 5)
    expect_quotient(p, shifted, c * d + 5 * 2**t, t, "a quotient plus a constant")
    total = p.mul(x, y, shift=t)[:3].sum(0, keepdim=True)
    wanted = (c * d)[:3].sum(keepdims=True)
    expect_quotient(p, total, wanted, t, "a sum of elements", units=3)


CHECKS = (
    check_truncate,
    check_exact_quotients,
    check_truncation_modes,
    check_products,
    check_sums_of_quotients,
)
