"""Sines, cosines and powers of two that every machine computes alike, bit by bit.

The evaluators multiply shares by a function of the opened value, and their factors must be equal:
one unit of difference, times a share, is noise. The last bit of a library's sine depends on the
processor, the vector width and the number of threads. So here are only sums, products and
conversions of float64, one tensor operation each, whose results IEEE 754 defines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import factorial, log, pi

import torch
from torch import Tensor

from ...ring import ring_of

# Taylor coefficients, by powers of the square, for |angle| <= pi/4: accurate to 2^-54.
SINE = [(-1) ** i / factorial(2 * i + 1) for i in range(8)]
COSINE = [(-1) ** i / factorial(2 * i) for i in range(9)]
EXP = [1 / factorial(i) for i in range(16)]


def odd_harmonics(x: Tensor, period_bits: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """sin and cos of 2 pi h x / 2^period_bits for h = 1, 3, 5, ..., `count` of them.

    The phase is reduced as an integer. From h to h + 2: sin((h + 2) a) is
    2 cos(2 a) sin(h a) - sin((h - 2) a), and so for the cosine.
    """
    sine, cosine = _sin_cos(x << (ring_of(x).bits - period_bits))
    step = 2 - sine * sine * 4
    before = -sine, cosine
    for _ in range(count):
        yield sine, cosine
        after = step * sine - before[0], step * cosine - before[1]
        before, (sine, cosine) = (sine, cosine), after


def _sin_cos(turn: Tensor) -> tuple[Tensor, Tensor]:
    """sin and cos of 2 pi turn / 2^k for ring elements: a quadrant, and at most an eighth more."""
    bits = ring_of(turn).bits
    quadrant = (turn + (1 << (bits - 3))) >> (bits - 2)
    angle = (turn - (quadrant << (bits - 2))).to(torch.float64) * (2 * pi / 2.0**bits)
    square = angle * angle
    sine, cosine = _horner(SINE, square) * angle, _horner(COSINE, square)
    odd = quadrant & 1 == 1
    sine, cosine = torch.where(odd, cosine, sine), torch.where(odd, sine, cosine)
    return (
        torch.where(quadrant & 2 == 2, -sine, sine),
        torch.where((quadrant + 1) & 2 == 2, -cosine, cosine),
    )


def power_of_half(x: Tensor, bits: int) -> Tensor:
    """2^(-x / 2^bits), for 0 <= x <= 2^bits."""
    return _horner(EXP, x.to(torch.float64) * (-log(2) / 2.0**bits))


def to_ring(x: Tensor, bits: int, like: Tensor) -> Tensor:
    """x rounded to a multiple of 2^-bits, as ring elements."""
    return (x * 2.0**bits).round_().to(like.dtype)


def _horner(coefficients: Sequence[float], x: Tensor) -> Tensor:
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total.mul_(x).add_(coefficient)
    return total
