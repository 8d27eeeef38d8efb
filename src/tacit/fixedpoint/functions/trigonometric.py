"""Sine, cosine, tangent, and the inverse trigonometric and hyperbolic functions.

The phase of a sine is an integer modulo a power of two, so that it wraps by itself. All inverse
functions that return an angle use `angle`, which is atan2.
"""

from __future__ import annotations

from functools import cache
from math import atan, pi

import torch

from ...protocols import Arith
from ...protocols.share import join
from ...protocols.steps import Steps
from ..arithmetic import add, mul, neg, square, sub
from ..compare import absolute, less, maximum, where
from ..format import Format, cap
from ..value import Operand, Value, combined, convert, real, result_dtype, settled
from .mantissa import chebyshev_series
from .quotient import divide
from .roots import logarithm, square_root
from .share_functions import bounded, function, run, settle_exactly

# The phase has at least this many more fraction bits than x.
LEAST_BITS = 28
# The fraction bits of the sine and the cosine whose quotient is a tangent, if the ring allows.
WAVE_BITS = 28


@function
def sine(n: Format, x: Arith) -> Steps[Arith]:
    """Returns sin x. Error: two units, and |x| 2^-28. 1 round and a division with a dealer."""
    return (yield from _wave(n, x, 0))


@function
def cosine(n: Format, x: Arith) -> Steps[Arith]:
    """Returns cos x. Error and rounds as `sine`."""
    return (yield from _wave(n, x, 1))


def tangent(n: Format, x: Value) -> Value:
    """Returns tan x, for |tan x| < 2^range_bits. Rounds of `sine` and of a quotient.

    A quotient of a sine and a cosine with 28 fraction bits: near a pole the cosine is small. In a
    ring of 64 bits the error is 2^-14 |tan x| + (1 + tan^2 x) 2^-26 with a dealer, and with 2^(f +
    range_bits - 54) in place of 2^-26 without one; and two units.
    """
    x = settled(n, real(n, x))
    waves = Value(run(n, _both_waves, cap(n, x.arith)), x.dtype)
    return divide(n, waves.map(lambda part: part[0]), waves.map(lambda part: part[1]))


def _both_waves(n: Format, x: Arith) -> Steps[Arith]:
    """Returns sin x and cos x, stacked, with more fraction bits than other values."""
    p = n.protocol
    turns, period = yield from _turns(n, x)
    both = join(torch.stack, [turns, p.add_public(turns, 1 << (period - 2))])
    bits = max(n.fraction_bits, min(WAVE_BITS, n.ring.bits // 2 - 4))
    waves = yield from p.fourier.steps(
        both, [1.0], period_bits=period, fraction_bits=bits, tolerance=2.0**-bits
    )
    return (yield from settle_exactly(n, waves)).promise(2 << bits)


def _wave(n: Format, x: Arith, quarters: int) -> Steps[Arith]:
    """Returns sin(x + quarters pi / 2), from x as a number of turns."""
    p = n.protocol
    turns, period = yield from _turns(n, x)
    turns = p.add_public(turns, quarters << (period - 2)) if quarters else turns
    wave = yield from p.fourier.steps(
        turns, [1.0], period_bits=period, fraction_bits=n.fraction_bits
    )
    return bounded(n, wave, 1.0)


def _turns(n: Format, x: Arith) -> Steps[tuple[Arith, int]]:
    """Returns x / 2 pi modulo 1, and its fraction bits."""
    return (yield from (_wrapping if n.protocol.dealt_tables else _reduced)(n, x))


def _wrapping(n: Format, x: Arith) -> Steps[tuple[Arith, int]]:
    """Returns x / 2 pi with as many fraction bits as the ring has, and their number.

    The integer part is lost in the ring, which is right for a phase.
    """
    if n.ring.bits - n.fraction_bits - x.pending < LEAST_BITS:
        x = yield from n.protocol.settled.steps(x)
    bits = n.ring.bits - n.fraction_bits - x.pending
    return x.scaled(round(2**bits / (2 * pi))), n.fraction_bits + bits


def _reduced(n: Format, x: Arith) -> Steps[tuple[Arith, int]]:
    """Returns x / 2 pi without its integer part, and its fraction bits. Two divisions.

    For protocols without dealt tables, whose sines need a phase of at most one turn. With x =
    2^s high + low, adds high times the fractional part of 2^s / 2 pi and low / 2 pi, then subtracts
    the integer part.
    """
    p, f = n.protocol, n.fraction_bits
    x = yield from p.settled.steps(x)
    size = x.limit.bit_length()
    cut = size // 2
    period = n.ring.bits - 5 - (size - cut)
    high = yield from settle_exactly(n, p.add_public(x, 0).divided(cut))
    low = p.sub(x, high.scaled(1 << cut)).promise(2 << cut)
    part = round((2.0 ** (cut - f) / (2 * pi)) % 1.0 * 2**period)
    turns = p.add(high.scaled(part), low.scaled(round(2.0 ** (period - f) / (2 * pi))))
    whole = yield from settle_exactly(n, p.add_public(turns, 0).divided(period))
    return p.sub(turns, whole.scaled(1 << period)).promise(1 << period), period


def angle(n: Format, y: Operand, x: Operand) -> Value:
    """Returns the angle of the point (x, y), in (-pi, pi]; 0 for the origin. Error: a few units.

    A Chebyshev polynomial gives the arc tangent of the smaller coordinate over the larger one;
    three comparisons say how to reflect it. A division, a polynomial and five choices.
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
    """Returns atan(t) for 0 <= t <= 1."""
    p, f = n.protocol, n.fraction_bits
    y = p.add_public(t.promise(2 << f).scaled(2), -(1 << f)).promise(1 << (f + 1))
    return (yield from p.chebyshev.steps(y, _arc_series(2.0**-f), argument_bits=f, fraction_bits=f))


@cache
def _arc_series(tolerance: float) -> tuple[float, ...]:
    return chebyshev_series(lambda y: atan((y + 1) / 2), tolerance)


def arc_tangent(n: Format, x: Value) -> Value:
    """Returns atan x, in (-pi/2, pi/2). Error and rounds as `angle`."""
    return angle(n, x, torch.ones((), dtype=real(n, x).dtype))


def arc_sine(n: Format, x: Value) -> Value:
    """Returns asin x for |x| <= 1. Error 2^-(f/2) near -1 and 1, where the slope is infinite."""
    return angle(n, x, _other_side(n, x))


def arc_cosine(n: Format, x: Value) -> Value:
    """Returns acos x for |x| <= 1. Error as `arc_sine`."""
    return angle(n, _other_side(n, x), x)


def _other_side(n: Format, x: Value) -> Value:
    """Returns sqrt(1 - x^2), as sqrt((1 - x) (1 + x))."""
    x = settled(n, real(n, x))
    return square_root(n, mul(n, sub(n, 1.0, x), add(n, x, 1.0)))


def hyperbolic_arc_sine(n: Format, x: Value) -> Value:
    """Returns asinh x = ln(|x| + sqrt(x^2 + 1)) with the sign of x, for x^2 within the range."""
    x = settled(n, real(n, x))
    size = settled(n, absolute(n, x))
    value = logarithm(n, add(n, size, square_root(n, add(n, square(n, size), 1.0))))
    return where(n, less(n, x, 0), neg(n, value), value)


def hyperbolic_arc_cosine(n: Format, x: Value) -> Value:
    """Returns acosh x = ln(x + sqrt(x - 1) sqrt(x + 1)) for x >= 1."""
    x = settled(n, real(n, x))
    both = square_root(n, combined(n, [sub(n, x, 1.0), add(n, x, 1.0)], torch.stack))
    product = mul(n, both.map(lambda part: part[0]), both.map(lambda part: part[1]))
    return logarithm(n, add(n, x, product))
