"""Whole parts of reals: rounded down, up, towards zero, to the nearest.

NOTE [whole]: a division by 2^f gives the quotient rounded down or one more. What remains tells
which, by a comparison in a window of f + 2 bits, so the results are those of torch, exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..protocols import Arith
from ..protocols.coefficients import Row
from .encoding import cap
from .value import Value

if TYPE_CHECKING:
    from .numbers import Numbers


def divided_down(n: Numbers, x: Arith, bits: int) -> tuple[Arith, Arith]:
    """A quotient q of x by 2^bits, rounded down or one more, and x - 2^bits q. One division."""
    p = n.protocol
    x = p.settled(cap(n, x))
    quotient = p.settled(p.add_public(x, 0).divided(bits))
    rest = p.sub(x, quotient.scaled(1 << bits))
    return quotient, rest.promise(2 << bits)


def floor_integer(n: Numbers, x: Arith, bits: int) -> Arith:
    """The integer at or below x / 2^bits. See NOTE [whole]."""
    quotient, rest = divided_down(n, x, bits)
    return n.protocol.sub(quotient, n.protocol.to_arith(n.protocol.sign(rest)))


def trunc_integer(n: Numbers, x: Arith, bits: int) -> Arith:
    """The integer at x / 2^bits or next to it towards zero; another comparison.

    Negative numbers are moved up by all but a unit, then rounded down.
    """
    p = n.protocol
    negative = p.to_arith(p.sign(cap(n, x)))
    x = p.settled(x)
    return floor_integer(n, p.add(x, p.mul_public(negative, (1 << bits) - 1)), bits)


def nearest_integer(n: Numbers, x: Arith, bits: int) -> Arith:
    """The integer closest to x / 2^bits, of two the even one.

    With y = x + 1/2 = 2 q + r that is 2 q, and one more if r > 1: r = 1 is the half between.
    """
    p = n.protocol
    one = 1 << bits
    quotient, rest = divided_down(n, p.add_public(p.settled(x), one >> 1), bits + 1)
    below = p.signs(rest, (-one + 1, 0, one + 1))  # r from -2 on where q is one too many
    row = Row((0, 0, 0), (-1, -1, -1))
    [less] = p.inject_sums(below, None, [row])
    return p.add_public(p.add(quotient.scaled(2), less), 1)


def floor(n: Numbers, x: Value) -> Value:
    return _real(n, x, floor_integer(n, x.arith, n.fraction_bits)) if x.is_real else x


def ceil(n: Numbers, x: Value) -> Value:
    return n.neg(floor(n, n.neg(x))) if x.is_real else x


def trunc(n: Numbers, x: Value) -> Value:
    return _real(n, x, trunc_integer(n, x.arith, n.fraction_bits)) if x.is_real else x


def nearest(n: Numbers, x: Value) -> Value:
    return _real(n, x, nearest_integer(n, x.arith, n.fraction_bits)) if x.is_real else x


def frac(n: Numbers, x: Value) -> Value:
    """x without its whole part, with the sign of x."""
    x = n.settled(x)
    return n.sub(x, trunc(n, x))


def _real(n: Numbers, x: Value, whole: Arith) -> Value:
    return n.convert(Value(whole, torch.int64), x.dtype)
