"""Parallel blocks: the same results in shared rounds, and clear errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import ProtocolError
from ..protocols import Arith, Protocol
from ..runtime import Session
from .division import factor_bits
from .expect import expect, expect_error, expect_quotient, expect_true, plain_of
from .values import bit_values, integers, secret, secret_bits, small


def check_parallel(session: Session) -> None:
    """Different operations in a block return what they return one after the other."""
    p = session.protocol
    a, x = small(p, (70,), "a", 10)
    b, y = small(p, (70,), "bb", 10)
    bits = bit_values((70,), "bits")
    f = secret_bits(p, bits, 2)
    with p.parallel():
        product, square, matrix = p.mul(x, y), p.square(x), p.outer(x, y)
        negative, zero, both = p.sign(x), p.is_zero(y), p.bit_and(f, f)
        picked, random, new = p.inject(f, y), p.random((5,)), p.share(a, 0)
        flags = p.random_bits((5,), 2)
    expect(p, product, a * b, "mul in a block")
    expect(p, square, a * a, "square in a block")
    expect(p, matrix, a[:, None] * b, "outer in a block")
    expect(p, negative, a < 0, "sign in a block")
    expect(p, zero, b == 0, "is_zero in a block")
    expect(p, both, bits[0].bool(), "bit_and in a block")
    expect(p, picked, b * bits[0], "inject in a block")
    expect(p, new, a, "share in a block")
    expect_true(p, random.shape == (5,) and flags.width == 2, "random in a block")


def check_rounds_are_shared(session: Session) -> None:
    """Two operations of one kind take the rounds of one."""
    p = session.protocol
    _, x = small(p, (70,), "a", 10)
    _, y = small(p, (70,), "bb", 20)
    f = secret_bits(p, bit_values((70,), "bits"), 2)
    p.sign(x)  # the first of a session may set something up
    with session.stats.scope("one") as one:
        p.sign(x)
    with session.stats.scope("two") as two, p.parallel():
        p.sign(x), p.sign(x)
    expect_true(p, two.rounds == one.rounds, "two signs in the rounds of one")
    with session.stats.scope("mixed") as mixed, p.parallel():
        p.mul(x, y), p.sign(x), p.bit_and(f, f)
    most = _most(session, one.rounds)
    expect_true(p, mixed.rounds <= most, "a product in the rounds of a sign")


def _most(session: Session, count: int) -> int:
    """Returns the largest of the parties' counts."""
    p = session.protocol
    mine = torch.tensor([count])
    return max(int(plain_of(p, secret(p, mine, owner))) for owner in range(session.parties))


def check_pending_in_blocks(session: Session) -> None:
    """Several users of one pending quotient in a block."""
    p = session.protocol
    bits, t = min(factor_bits(p), 8), 3
    a, x = small(p, (70,), "a", bits)
    flags = bit_values((70,), "flags")
    f = secret_bits(p, flags, 1)
    z = p.square(x, shift=t)
    with p.parallel():
        twice: list[Arith] = [p.mul(z, x), p.mul(z, x)]
        picked, negative, settled = p.inject(f, z), p.sign(z), p.settled(z)
    plain = plain_of(p, settled)
    expect_quotient(p, settled, integers(a) ** 2, t, "settled in a block")
    expect_quotient(p, picked, integers(a) ** 2 * integers(flags[0]), t, "inject in a block")
    expect(p, negative, a != a, "sign of a square")
    for found in twice:
        cubes = integers(a) ** 3
        off = abs(integers(plain_of(p, found)) * 2**t - cubes)
        expect_true(p, bool((off <= abs(integers(a)) << t).all()), "a product in a block")
    expect_true(p, plain.shape == a.shape, "shapes in a block")


def check_settled_once(session: Session) -> None:
    """Calls of a block that settle one share at different times use the same value of it."""
    p = session.protocol
    bits, t = min(factor_bits(p), 8), 3
    a, x = small(p, (70,), "a", bits)
    for turn in range(5):
        z, other = p.square(x, shift=t), p.square(x, shift=t)
        calls = _users_of(p, z, other, x)
        with p.parallel():
            found = [calls[(turn + i) % 5]() for i in range(5)]
        product, zero, later, settled, square = (found[(i - turn) % 5] for i in range(5))
        plain, second = plain_of(p, z), plain_of(p, other)
        expect(p, settled, plain, "settled, and what was settled")
        expect(p, product, plain * a, "a product with it")
        expect(p, later, plain * second, "a product with it, a round later")
        expect(p, zero, plain == 0, "whether it is zero")
        expect(p, square, plain * plain, "its square")


def _users_of(p: Protocol, z: Arith, other: Arith, x: Arith) -> list[Callable[[], Any]]:
    """Returns calls that settle z, at once or after a round."""
    return [
        lambda: p.mul(z, x),
        lambda: p.is_zero(z),
        lambda: p.mul(other, z),
        lambda: p.settled(z),
        lambda: p.square(z),
    ]


def check_mistakes_in_blocks(session: Session) -> None:
    """A result of a block cannot be used inside the block."""
    p = session.protocol
    a, x = small(p, (70,), "a", 10)

    def use_early() -> None:
        with p.parallel():
            p.mul(p.square(x), x)

    def look_early() -> None:
        with p.parallel():
            p.square(x).shape  # noqa: B018

    def reveal_inside() -> None:
        with p.parallel():
            p.reveal(x)

    def nest() -> None:
        with p.parallel(), p.parallel():
            p.square(x)

    expect_error(ProtocolError, look_early, "the shape of a share that is not there yet")
    expect_error(ProtocolError, use_early, "a share that is not there yet")
    expect_error(ProtocolError, reveal_inside, "reveal inside a block")
    expect_error(ProtocolError, nest, "a block in a block")
    expect(p, p.square(x), a * a, "the session goes on")


CHECKS = (
    check_parallel,
    check_rounds_are_shared,
    check_pending_in_blocks,
    check_settled_once,
    check_mistakes_in_blocks,
)
