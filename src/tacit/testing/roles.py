"""Roles that can be turned: shares and pending products of some roles serve in any others."""

from __future__ import annotations

from itertools import product

from ..protocols import Protocol
from ..runtime import Session
from .division import factor_bits
from .expect import expect, expect_quotient, expect_true, plain_of
from .values import bit_values, integers, ring_values, secret, secret_bits, small


def roles_of(session: Session) -> list[Protocol]:
    """The session's protocol in all of its roles; one, if it has none to turn."""
    rotated = getattr(session.protocol, "rotated", None)
    return [rotated(by) for by in range(session.parties)] if rotated else [session.protocol]


def check_turned_roles(session: Session) -> None:
    """What is shared, multiplied and compared in different roles."""
    for p, q in product(roles_of(session), repeat=2):
        a, b = ring_values(p.ring, (70,), "a"), ring_values(p.ring, (70,), "b")
        x, y = secret(p, a, 1), secret(q, b, 2)
        expect(p, q.mul(p.mul(x, y), q.add(x, y)), a * b * (a + b), "products in two roles")
        bit = p.bit_xor(q.sign(x), p.sign(y))
        expect(q, bit, (a < 0) ^ (b < 0), "signs in two roles")
        expect(p, q.inject(p.bit_and(bit, bit), x), a * ((a < 0) ^ (b < 0)), "inject in two roles")
        expect(q, p.add_public(q.neg(x), 3), 3 - a, "linear operations in two roles")


def check_turned_roles_of_quotients(session: Session) -> None:
    """A division that is pending in some roles is made in others."""
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


CHECKS = (check_turned_roles, check_turned_roles_of_quotients)
