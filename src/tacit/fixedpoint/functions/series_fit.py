"""Series of odd harmonics that follow a curve between its two lines.

For |x| < L the function is a x + b + an odd part + an even part. The odd part is flat at L and is
continued by reflection about L; the even part is 0 at L and is continued with the opposite sign.
Both are then series of the odd harmonics of period 4 L, which converge fast: sum over h = 1, 3, 5,
... of c_h sin(2 pi h x / 4L), and the same of cosines, which are sines a quarter period later.
Where the function is not quite on its lines at L, the harmonics fall slowly in the end; least
squares then need fewer of them for the same distance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from math import pi

import torch
from torch import Tensor

from ...ring.deterministic import odd_harmonics
from .wave_fit import DIGITS, NODE_BITS, PERIOD_BITS, least_squares
from .wave_fit import NODES as FIT_NODES

NODES = 4096
MOST_HARMONICS = 48
# Parties multiply shares by coefficients, which must have the same bits on every machine.
COEFFICIENT_BITS = 24
# How far a function may be from its lines where they begin: with up to 16 fraction bits, and with
# more.
COARSE_GAP, FINE_GAP = 7e-4, 4.5e-5


@dataclass(frozen=True)
class Curve:
    """A function of float64 tensors, and its lines (slope, offset) on the far left and right.

    At least one of the lines is constant.
    """

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
    enough to its lines.
    """
    allowed = COARSE_GAP if fraction_bits <= 16 else FINE_GAP
    reach_bits = next(
        bits for bits in range(least_reach_bits, 8) if _gap(curve, 2**bits) <= allowed
    )
    reach = 2.0**reach_bits
    twice_slope = curve.left[0] + curve.right[0]
    ends = curve.function(torch.tensor([-reach, reach], dtype=torch.float64))
    (offset,) = _rounded([float(ends.sum()) / 2])
    tolerance = max(2.0 ** -(fraction_bits + 2), _gap(curve, 2**reach_bits) / 8)

    def odd_part(u: Tensor) -> Tensor:
        t = u * reach
        return (curve.function(t) - curve.function(-t)) / 2 - twice_slope / 2 * t

    def even_part(u: Tensor) -> Tensor:
        t = u * reach
        return (curve.function(t) + curve.function(-t)) / 2 - offset

    odd, _ = _coefficients(odd_part, torch.sin, tolerance)
    even, constant = _coefficients(even_part, torch.cos, tolerance)
    return Series(reach_bits, twice_slope, offset + constant, odd, even)


def _gap(curve: Curve, reach: int) -> float:
    """Returns the largest distance of the curve from its lines for |x| from L to 4 L."""
    t = torch.linspace(reach, 4 * reach, 257, dtype=torch.float64)
    (a, b), (c, d) = curve.left, curve.right
    left = curve.function(-t) - (b - a * t)
    right = curve.function(t) - (c * t + d)
    return float(torch.stack([left, right]).abs().max())


def _coefficients(
    part: Callable[[Tensor], Tensor], wave: Callable[[Tensor], Tensor], tolerance: float
) -> tuple[tuple[float, ...], float]:
    """Returns the coefficients of the odd harmonics of a part, and a constant beside cosines.

    The part is a function of u = x / L. c_h = 2 times the integral from 0 to 1 of the part times
    its wave, by the midpoint rule, as many as the tolerance asks for; or fewer from least squares
    if they are as close.
    """
    u = (torch.arange(NODES, dtype=torch.float64) + 0.5) / NODES
    values = part(u)
    waves = torch.stack([wave((2 * i + 1) * pi / 2 * u) for i in range(MOST_HARMONICS)])
    found = (waves * values).mean(1) * 2
    left_out = found.abs().flip(0).cumsum(0).flip(0)
    best, constant = _rounded(found[: int((left_out > tolerance).sum())].tolist()), 0.0

    def distance(coefficients: Sequence[float], constant: float) -> float:
        total = torch.tensor(coefficients, dtype=torch.float64) @ waves[: len(coefficients)]
        return float((total + constant - values).abs().max())

    allowed = distance(best, constant)
    while len(best) > 1:
        shorter = _fitted(part, len(best) - 1, cosines=wave is torch.cos)
        if distance(*shorter) > allowed:
            break
        best, constant = shorter
    return best, constant


def _fitted(
    part: Callable[[Tensor], Tensor], count: int, *, cosines: bool
) -> tuple[tuple[float, ...], float]:
    """Returns so many coefficients, and the constant beside cosines, by least squares."""
    steps = ((i + 0.5) / FIT_NODES for i in range(FIT_NODES))
    nodes = torch.tensor([round((1 - (1 - k) ** 3) * 2.0**NODE_BITS) for k in steps])
    pairs = odd_harmonics(nodes, NODE_BITS + PERIOD_BITS, count)
    with localcontext(prec=DIGITS):
        rows = [[Decimal(v) for v in pair[cosines].tolist()] for pair in pairs]
        rows += [[Decimal(1)] * FIT_NODES] if cosines else []
        goal = [Decimal(v) for v in part(nodes / 2.0**NODE_BITS).tolist()]
        found = _rounded(map(float, least_squares(rows, goal)))
    return (found[:-1], found[-1]) if cosines else (found, 0.0)


def _rounded(values: Iterable[float]) -> tuple[float, ...]:
    scale = 2.0**COEFFICIENT_BITS
    return tuple(round(value * scale) / scale for value in values)
