"""Sine series of smooth functions that become lines on both sides: sigmoid, GELU, softplus, ...

For |x| < L the function is a x + b + an odd part + an even part. The odd part is flat at L and is
continued by reflection about L; the even part is 0 at L and is continued with the opposite sign.
Both are then series of the odd harmonics of period 4 L, which converge fast: sum over h = 1, 3, 5,
... of c_h sin(2 pi h x / 4L), and the same of cosines, which are sines a quarter period later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import pi

import torch
from torch import Tensor

from ...protocols import MUL, Arith, BitSum, Bool
from ...protocols.derived.piecewise import one_hot, quotient_limit
from ...protocols.steps import Steps, together
from ..format import Format, cap
from ..value import Value, real
from .share_functions import bounded, run

NODES = 4096
MOST_HARMONICS = 48
# A longer series saves comparisons where |x| is known to be below 2^WIDEST_REACH_BITS. Its
# harmonics cost more bytes, so only for few elements.
WIDEST_REACH_BITS, FEW = 4, 1024
# Parties multiply shares by coefficients, which must have the same bits on every machine.
COEFFICIENT_BITS = 24
# How far a function may be from its lines where they begin: with up to 16 fraction bits, and with
# more.
COARSE_GAP, FINE_GAP = 7e-4, 4.5e-5


@dataclass(frozen=True)
class Curve:
    """A function of float64 tensors, and its lines (slope, offset) on the far left and right."""

    function: Callable[[Tensor], Tensor]
    left: tuple[int, float] = (0, 0.0)
    right: tuple[int, float] = (0, 0.0)


@dataclass(frozen=True)
class Series:
    """A curve for |x| < L = 2^reach_bits: twice_slope x / 2 + offset + sines + cosines.

    odd, even: the coefficients c_h of the sines and of the cosines, for h = 1, 3, 5, ...
    """

    reach_bits: int
    twice_slope: int
    offset: float
    odd: tuple[float, ...]
    even: tuple[float, ...]


@cache
def series(curve: Curve, fraction_bits: int, least_reach_bits: int = 1) -> Series:
    """Returns the shortest series of a curve for this many fraction bits.

    L is the smallest power of two, 2^least_reach_bits or more, beyond which the curve is close
    enough to its lines. The coefficients c_h = 2/L times the integral from 0 to L of the part times
    its wave come from the midpoint rule.
    """
    allowed = COARSE_GAP if fraction_bits <= 16 else FINE_GAP
    reach_bits = next(
        bits for bits in range(least_reach_bits, 8) if _gap(curve, 2**bits) <= allowed
    )
    reach = 2.0**reach_bits
    t = (torch.arange(NODES, dtype=torch.float64) + 0.5) * (reach / NODES)
    twice_slope = curve.left[0] + curve.right[0]
    ends = curve.function(torch.tensor([-reach, reach], dtype=torch.float64))
    offset = float(ends.sum()) / 2
    right, left = curve.function(t), curve.function(-t)
    tolerance = max(2.0 ** -(fraction_bits + 2), _gap(curve, 2**reach_bits) / 8)
    angles = pi * t / (2 * reach)
    odd = _coefficients((right - left) / 2 - twice_slope / 2 * t, angles, torch.sin, tolerance)
    even = _coefficients((right + left) / 2 - offset, angles, torch.cos, tolerance)
    return Series(reach_bits, twice_slope, offset, odd, even)


def _gap(curve: Curve, reach: int) -> float:
    """Returns the largest distance of the curve from its lines for |x| from L to 4 L."""
    t = torch.linspace(reach, 4 * reach, 257, dtype=torch.float64)
    (a, b), (c, d) = curve.left, curve.right
    left = curve.function(-t) - (b - a * t)
    right = curve.function(t) - (c * t + d)
    return float(torch.stack([left, right]).abs().max())


def _coefficients(
    values: Tensor, angles: Tensor, wave: Callable[[Tensor], Tensor], tolerance: float
) -> tuple[float, ...]:
    """Returns the coefficients of the odd harmonics, as few as the tolerance allows."""
    waves = torch.stack([wave((2 * i + 1) * angles) for i in range(MOST_HARMONICS)])
    found = (waves * values).mean(1) * 2
    left_out = found.abs().flip(0).cumsum(0).flip(0)
    count = int((left_out > tolerance).sum())
    scale = 2.0**COEFFICIENT_BITS
    return tuple(round(float(c) * scale) / scale for c in found[:count])


def curve_value(n: Format, x: Value, curve: Curve) -> Value:
    """Returns the curve at x. r + 1 rounds with a dealer; 1 if the limit of x is below L."""
    x = real(n, x)
    share = cap(n, x.arith)
    largest = _largest(curve, quotient_limit(share) / 2**n.fraction_bits)
    result = run(n, _curve, share, series(curve, n.fraction_bits), curve)
    return Value(bounded(n, result, largest), x.dtype)


def _largest(curve: Curve, reach: float) -> float:
    """Returns a bound of the curve for |x| <= reach: on its lines, or 2 in its middle."""
    lines = [abs(slope) * reach + abs(offset) for slope, offset in (curve.left, curve.right)]
    return max(*lines, 2.0)


def bounded_curve(
    n: Format, x: Arith, curve: Curve, *, factor: Arith | None = None
) -> Steps[Arith]:
    """Returns the curve at x, times a factor if there is one; both lines must be constant.

    With a factor that is a real, the result has 2 f fraction bits. Rounds with a dealer: 1 if the
    limit of x is below L, or for few elements below 2^WIDEST_REACH_BITS; else 2 for few elements
    and r + 1 for many. Without a dealer, or with a factor in a small ring, a product more.
    """
    p, f = n.protocol, n.fraction_bits
    reach_bits = max((quotient_limit(x) - 1).bit_length() - f, 1)
    widens = x.numel <= FEW and reach_bits <= WIDEST_REACH_BITS
    expansion = series(curve, f, reach_bits if widens else 1)
    assert not expansion.even
    period, one = f + expansion.reach_bits + 2, 1 << f
    offset = round(expansion.offset * one)
    if quotient_limit(x) > one << expansion.reach_bits:
        left, right = (round(height * one) for _, height in (curve.left, curve.right))
        return (
            yield from p.saturated.steps(
                x,
                expansion.odd,
                period_bits=period,
                fraction_bits=f,
                tails=(left, right),
                offset=offset,
                factor=factor,
            )
        )
    fused = factor if n.ring.bits == 64 else None  # or too few bits are left for the sines
    value = yield from p.fourier.steps(
        x, expansion.odd, period_bits=period, fraction_bits=f, factor=fused
    )
    if factor is None:
        return p.add_public(value, offset)
    if fused is None:
        value = yield from p.bilinear.steps(MUL, value, factor)
    return p.add(value, factor.scaled(offset)) if offset else value


def _curve(n: Format, x: Arith, expansion: Series, curve: Curve) -> Steps[Arith]:
    """Computes the series and the bits [x < -L], [x < L] in parallel, then chooses."""
    p, one = n.protocol, 1 << n.fraction_bits
    quarter = one << expansion.reach_bits  # L, a quarter of the period
    if x.pending + n.fraction_bits + expansion.reach_bits + 3 > n.ring.bits:
        x = yield from p.settled.steps(x)
    if quotient_limit(x) <= quarter:
        return (yield from _inner(n, x, expansion))
    tails = [curve.left, curve.right]
    if not expansion.even and not expansion.twice_slope and not curve.right[0]:
        left, right = (round(offset * one) for _, offset in tails)
        return (
            yield from p.saturated.steps(
                x,
                expansion.odd,
                period_bits=n.fraction_bits + expansion.reach_bits + 2,
                fraction_bits=n.fraction_bits,
                tails=(left, right),
                offset=round(expansion.offset * one),
            )
        )
    near = x.promise(quarter << x.pending)
    below, [middle, x] = yield from together(
        p.signs.steps(x, [-quarter, quarter]),
        together(_inner(n, near, expansion), p.settled.steps(x)),
    )
    return (yield from _with_lines(n, x, one_hot(p, below), middle, curve))


def _with_lines(
    n: Format, x: Arith, pieces: Sequence[Bool], middle: Arith, curve: Curve
) -> Steps[Arith]:
    """Returns right + [x < -L] (left - right) + [|x| < L] (middle - right) of the lines."""
    p, one = n.protocol, 1 << n.fraction_bits
    (a, b), (c, d) = curve.left, curve.right
    row = BitSum((a - c, -c), (round((b - d) * one), -round(d * one)))
    uses = x if any(row.scales) else None
    inner, [lines] = yield from together(
        p.inject.steps(pieces[1], middle), p.inject_sums.steps(pieces, uses, [row])
    )
    total = p.add_public(p.add(inner, lines), round(d * one))
    return p.add(total, x.scaled(c)) if c else total


def _inner(n: Format, x: Arith, expansion: Series) -> Steps[Arith]:
    """Returns the series, with one more fraction bit: a division by two is pending."""
    p, f = n.protocol, n.fraction_bits
    period = f + expansion.reach_bits + 2
    calls = []
    for coefficients, shift in ((expansion.odd, 0), (_as_sines(expansion.even), 1 << (period - 2))):
        if coefficients:
            calls.append(_wave(n, x, coefficients, shift, period))
    if expansion.twice_slope:
        calls.append(p.settled.steps(x))
    *waves, last = yield from together(*calls)
    total = last.scaled(expansion.twice_slope) if expansion.twice_slope else last
    for wave in waves:
        total = p.add(total, wave)
    return p.add_public(total, round(expansion.offset * 2 ** (f + 1))).divided(1)


def _wave(
    n: Format, x: Arith, coefficients: Sequence[float], shift: int, period: int
) -> Steps[Arith]:
    """Returns the sum of c_h sin(2 pi h (x + shift) / 2^period), with one more fraction bit."""
    p = n.protocol
    x = p.add_public(x, shift) if shift else x
    value = yield from p.fourier.steps(
        x, coefficients, period_bits=period, fraction_bits=n.fraction_bits + 1
    )
    return (yield from p.settled.steps(value))


def _as_sines(even: Sequence[float]) -> list[float]:
    """Returns the coefficients of sin(h (x + pi/2)), which is cos x, -cos 3x, cos 5x, ..."""
    return [-c if i % 2 else c for i, c in enumerate(even)]
