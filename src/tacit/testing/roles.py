"""Rotated roles: shares and pending products of one rotation can be used in any other."""

from __future__ import annotations

from itertools import product

from ..protocols import Protocol
from ..runtime import Session
from .division import factor_bits
from .expect import expect, expect_quotient, expect_true, plain_of
from .values import bit_values, integers, ring_values, secret, secret_bits, small


def roles_of(session: Session) -> list[Protocol]:
    """Returns the session's protocol in every rotation of its roles, or as it is if it has none."""
    rotated = getattr(session.protocol, "rotated", None)
    return [rotated(by) for by in range(session.parties)] if rotated else [session.protocol]


def check_rotated_roles(session: Session) -> None:
    """Secrets are shared, multiplied and compared in different rotations."""
    for p, q in product(roles_of(session), repeat=2):
        a, b = ring_values(p.ring, (70,), "a"), ring_values(p.ring, (70,), "b")
        x, y = secret(p, a, 1), secret(q, b, 2)
        expect(p, q.mul(p.mul(x, y), q.add(x, y)), a * b * (a + b), "products in two roles")
        bit = p.bit_xor(q.sign(x), p.sign(y))
        expect(q, bit, (a < 0) ^ (b < 0), "signs in two roles")
        expect(p, q.inject(p.bit_and(bit, bit), x), a * ((a < 0) ^ (b < 0)), "inject in two roles")
        expect(q, p.add_public(q.neg(x), 3), 3 - a, "linear operations in two roles")


def check_rotated_roles_of_quotients(session: Session) -> None:
    """A division that is pending in one rotation is made in another."""
    bits, t = min(factor_bits(session.protocol), 10), 3
    for p, q in product(roles_of(session), repeat=2):
        a, x = small(p, (70,), "a", bits)
        b, y = small(p, (70,), "bb", bits)
        flags = bit_values((70,), "flags")
        f, dividend = secret_bits(p, flags, 1), integers(a) * integers(b)

        expect_quotient(q, p.mul(x, y, shift=t), dividend, t, "revealed in other roles")
        found = q.truncate(p.mul(x, y, shift=t))
        expect_quotient(q, found, dividend, t, "divided in other roles")
        found = q.inject(f, p.mul(x, y, shift=t))
        expect_quotient(q, found, dividend * integers(flags[0]), t, "injected in other roles")
        found = q.add_public(q.add(p.mul(x, y, shift=t), x), 5)
        wanted = dividend + integers(a) * 2**t + (5 << t)
        expect_quotient(q, found, wanted, t, "added to in other roles")
        z = p.mul(x, y, shift=t)
        negative = plain_of(q, q.sign(z))
        clear = (a * b).abs() >= 1 << t
        expect_true(q, negative[clear] == (a * b < 0)[clear], "compared in other roles")
        again = q.mul(z, x)
        expect(q, again, plain_of(q, z) * a, "multiplied in other roles")


CHECKS = (check_rotated_roles, check_rotated_roles_of_quotients)
