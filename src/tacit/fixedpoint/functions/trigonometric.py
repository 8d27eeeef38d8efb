"""Sine, cosine, tangent, and the inverse trigonometric and hyperbolic functions.

The phase of a sine is an integer modulo a power of two, so that it wraps by itself. All inverse
functions that return an angle use `atan2`.
"""

from __future__ import annotations

from functools import cache
from math import atan, pi

import torch

from ...protocols import Arith
from ...protocols.steps import Steps
from ..arithmetic import add, mul, neg, square, sub
from ..compare import absolute, less, maximum, where
from ..conversion import combined, convert, real, settled
from ..format import Format, cap
from ..value import Operand, Value, result_dtype
from .mantissa import chebyshev_series
from .quotient import divide
from .roots import logarithm, square_root
from .share_functions import bounded, exactly, function, run

# The phase keeps at least this many bits more than x.
LEAST_BITS = 28


@function
def sine(n: Format, x: Arith) -> Steps[Arith]:
    """sin x. Error: two units, and |x| 2^-28. One round and a division with a dealer."""
    return (yield from _wave(n, x, 0))


@function
def cosine(n: Format, x: Arith) -> Steps[Arith]:
    """cos x, as `sine`."""
    return (yield from _wave(n, x, 1))


def tangent(n: Format, x: Value) -> Value:
    """sin x / cos x; near its poles it saturates."""
    x = settled(n, x)
    return divide(n, sine(n, x), cosine(n, x))


def _wave(n: Format, x: Arith, quarters: int) -> Steps[Arith]:
    """sin(x + quarters pi / 2), from x as a number of turns."""
    p = n.protocol
    turns, period = yield from (_wrapping if p.dealt_tables else _reduced)(n, x)
    turns = p.add_public(turns, quarters << (period - 2)) if quarters else turns
    wave = yield from p.fourier.steps(
        turns, [1.0], period_bits=period, fraction_bits=n.fraction_bits
    )
    return bounded(n, wave, 1.0)


def _wrapping(n: Format, x: Arith) -> Steps[tuple[Arith, int]]:
    """x / 2 pi with as many fraction bits as the ring has, and their number."""
    if n.ring.bits - n.fraction_bits - x.pending < LEAST_BITS:
        x = yield from n.protocol.settled.steps(x)
    bits = n.ring.bits - n.fraction_bits - x.pending
    return x.scaled(round(2**bits / (2 * pi))), n.fraction_bits + bits


def _reduced(n: Format, x: Arith) -> Steps[tuple[Arith, int]]:
    """x / 2 pi less whole turns; what is left is a turn at most. Two divisions.

    x = 2^s high + low: high times the turns of 2^s, less whole ones, and low times those of 1.
    """
    p, f = n.protocol, n.fraction_bits
    x = yield from p.settled.steps(x)
    size = x.limit.bit_length()
    cut = size // 2
    period = n.ring.bits - 5 - (size - cut)
    high = yield from exactly(n, p.add_public(x, 0).divided(cut))
    low = p.sub(x, high.scaled(1 << cut)).promise(2 << cut)
    part = round((2.0 ** (cut - f) / (2 * pi)) % 1.0 * 2**period)
    turns = p.add(high.scaled(part), low.scaled(round(2.0 ** (period - f) / (2 * pi))))
    whole = yield from exactly(n, p.add_public(turns, 0).divided(period))
    return p.sub(turns, whole.scaled(1 << period)).promise(1 << period), period


def angle(n: Format, y: Operand, x: Operand) -> Value:
    """The angle of the point (x, y), in (-pi, pi]; 0 for the origin. Error: a few units.

    The arc tangent of the smaller coordinate over the larger one, by a polynomial, then mirrored
    by the three signs: a division and five choices.
    """
    dtype = result_dtype(y, x)
    y, x = settled(n, real(n, y)), settled(n, real(n, x))
    far, tall, wide = less(n, x, 0), settled(n, absolute(n, y)), settled(n, absolute(n, x))
    larger = settled(n, maximum(n, tall, wide))
    ratio = divide(n, sub(n, add(n, tall, wide), larger), larger, positive=True)
    turn = Value(run(n, _arc, cap(n, settled(n, ratio).arith)), ratio.dtype)
    turn = where(n, less(n, wide, tall), sub(n, pi / 2, turn), turn)
    turn = where(n, far, sub(n, pi, turn), turn)
    return convert(n, where(n, less(n, y, 0), neg(n, turn), turn), dtype)


def _arc(n: Format, t: Arith) -> Steps[Arith]:
    """atan(t) for 0 <= t <= 1."""
    p, f = n.protocol, n.fraction_bits
    y = p.add_public(t.promise(2 << f).scaled(2), -(1 << f)).promise(1 << (f + 1))
    return (yield from p.chebyshev.steps(y, _arc_series(2.0**-f), argument_bits=f, fraction_bits=f))


@cache
def _arc_series(tolerance: float) -> tuple[float, ...]:
    return chebyshev_series(lambda y: atan((y + 1) / 2), tolerance)


def arc_tangent(n: Format, x: Value) -> Value:
    return angle(n, x, torch.ones((), dtype=real(n, x).dtype))


def arc_sine(n: Format, x: Value) -> Value:
    """For |x| <= 1. Near the ends the error is 2^-(f/2), as the slope is without bound."""
    return angle(n, x, _other_side(n, x))


def arc_cosine(n: Format, x: Value) -> Value:
    """For |x| <= 1. As `arc_sine`."""
    return angle(n, _other_side(n, x), x)


def _other_side(n: Format, x: Value) -> Value:
    """sqrt(1 - x^2)."""
    x = settled(n, real(n, x))
    return square_root(n, mul(n, sub(n, 1.0, x), add(n, x, 1.0)))


def hyperbolic_arc_sine(n: Format, x: Value) -> Value:
    """ln(|x| + sqrt(x^2 + 1)) with the sign of x; for |x| below the root of the range."""
    x = settled(n, real(n, x))
    size = settled(n, absolute(n, x))
    value = logarithm(n, add(n, size, square_root(n, add(n, square(n, size), 1.0))))
    return where(n, less(n, x, 0), neg(n, value), value)


def hyperbolic_arc_cosine(n: Format, x: Value) -> Value:
    """ln(x + sqrt(x - 1) sqrt(x + 1)) for x >= 1."""
    x = settled(n, real(n, x))
    both = square_root(n, combined(n, [sub(n, x, 1.0), add(n, x, 1.0)], torch.stack))
    product = mul(n, both.map(lambda part: part[0]), both.map(lambda part: part[1]))
    return logarithm(n, add(n, x, product))
