"""Sums of sines and cosines that follow a function between two powers of two.

A dealer makes such a sum in one round, however many terms it has, where a polynomial takes a round
or two for each doubling of its degree. The function is not periodic, but it need not be: it is
followed on a quarter of the period or more, and the sum may do what it likes elsewhere (a Fourier
extension). Its error falls by a factor of 19 with each harmonic over one octave, and of 6 over two.

Evaluators multiply by the coefficients, which must have the same bits on every machine. So they are
the solution of linear equations in decimal arithmetic, from sines that are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache

import torch

from ...ring.deterministic import odd_harmonics

Function = Callable[[Decimal], Decimal]

NODES = 128
NODE_BITS = 40
DIGITS = 50
MOST_HARMONICS = 12
# How far beyond both ends the sum follows the function, relative to each end.
MARGIN = 2.0**-6
# What keeps the coefficients small where the harmonics are nearly dependent.
RIDGE = Decimal("1e-20")
# The period is 2^PERIOD_BITS times the upper end.
PERIOD_BITS = 2


@dataclass(frozen=True)
class Waves:
    """The sum over i of sines[i] sin(h u) + cosines[i] cos(h u), h = (2 i + 1) pi / 2."""

    sines: tuple[float, ...]
    cosines: tuple[float, ...]

    def scaled(self, factor: float) -> Waves:
        """Returns the sum times a factor."""
        parts = (self.sines, self.cosines)
        return Waves(*(tuple(c * factor for c in part) for part in parts))


@cache
def fitted(function: Function, octaves: int, tolerance: float, *, relative: bool = True) -> Waves:
    """Returns the shortest sum that equals the function of 2^-octaves <= u <= 1.

    Up to `tolerance` times the function, or up to `tolerance` if not `relative`.
    """
    nodes = _nodes(octaves)
    with localcontext(prec=DIGITS):
        goal = [function(Decimal(u) / 2**NODE_BITS) for u in nodes]
        weights = [1 / abs(value) if relative else Decimal(1) for value in goal]
        rows = _weighted_harmonics(nodes, weights)
        weighted = [value * weight for value, weight in zip(goal, weights, strict=True)]
        for count in range(3, MOST_HARMONICS + 1):
            terms = rows[: 2 * count]
            found = least_squares(terms, weighted)
            if count == MOST_HARMONICS or _distance(terms, weighted, found) <= tolerance:
                break
        floats = [float(c) for c in found]
    return Waves(tuple(floats[0::2]), tuple(floats[1::2]))


def _nodes(octaves: int) -> list[int]:
    """Returns where the function is fitted, in units of 2^-NODE_BITS; closer towards both ends."""
    low, high = 2.0**-octaves * (1 - MARGIN), 1 + MARGIN
    steps = (i / (NODES - 1) for i in range(NODES))
    places = (low + (high - low) * t * t * (3 - 2 * t) for t in steps)
    return [round(place * 2.0**NODE_BITS) for place in places]


def _weighted_harmonics(nodes: Sequence[int], weights: Sequence[Decimal]) -> list[list[Decimal]]:
    """Returns the sines and cosines in turn, at all nodes, times the weights of the nodes."""
    waves = odd_harmonics(torch.tensor(nodes), NODE_BITS + PERIOD_BITS, MOST_HARMONICS)
    rows = [wave.tolist() for pair in waves for wave in pair]
    return [[Decimal(v) * w for v, w in zip(row, weights, strict=True)] for row in rows]


def least_squares(rows: Sequence[Sequence[Decimal]], goal: Sequence[Decimal]) -> list[Decimal]:
    """Returns the c that minimise |sum of c_i rows_i - goal|^2 + RIDGE |c|^2, by elimination."""
    count = len(rows)
    matrix = [[*(_dot(row, other) for other in rows), _dot(row, goal)] for row in rows]
    for i in range(count):
        matrix[i][i] += RIDGE * NODES
    for i in range(count):
        for j in range(i + 1, count):
            ratio = matrix[j][i] / matrix[i][i]
            matrix[j] = [b - ratio * a for a, b in zip(matrix[i], matrix[j], strict=True)]
    found = [Decimal(0)] * count
    for i in reversed(range(count)):
        known = _dot(matrix[i][i + 1 : count], found[i + 1 :])
        found[i] = (matrix[i][count] - known) / matrix[i][i]
    return found


def _distance(
    rows: Sequence[Sequence[Decimal]], goal: Sequence[Decimal], found: Sequence[Decimal]
) -> Decimal:
    """Returns the largest difference of the sum from the goal."""
    values = (_dot(column, found) for column in zip(*rows, strict=True))
    return max(abs(value - wanted) for value, wanted in zip(values, goal, strict=True))


def _dot(a: Sequence[Decimal], b: Sequence[Decimal]) -> Decimal:
    return sum((x * y for x, y in zip(a, b, strict=True)), Decimal(0))
