"""Public random numbers that all parties draw alike, from a key that they all have."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, log, pi, sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .numbers import Numbers

BITS = 53  # of a float64
ARTANH = [1 / (2 * i + 1) for i in range(12)]
SINE = [(-1) ** i / factorial(2 * i + 1) for i in range(12)]  # for |angle| <= pi/2


def uniform(n: Numbers, shape: Sequence[int]) -> Tensor:
    """Multiples of 2^-53 in [0, 1), float64, the same at every party. No message."""
    context = n.protocol.context
    words = context.new_tape().draw(range(context.mesh.parties), shape, torch.int64)
    return (words & ((1 << BITS) - 1)).to(torch.float64) / 2.0**BITS


def normal(n: Numbers, shape: Sequence[int]) -> Tensor:
    """Normally distributed numbers, the same at every party (Box and Muller).

    NOTE [alike]: parties multiply their shares by these, so they must agree in every bit. The
    logarithms and cosines of libraries differ in the last; what is used here IEEE 754 defines.
    """
    radius, angle = uniform(n, (2, *shape))
    return (-2 * _log(1 - radius)).sqrt() * _cos(angle)


def _log(x: Tensor) -> Tensor:
    """The natural logarithm: ln m + e ln 2, with m from sqrt(1/2) to sqrt(2)."""
    mantissa, exponent = torch.frexp(x)
    low = mantissa < sqrt(0.5)
    mantissa, exponent = torch.where(low, mantissa * 2, mantissa), exponent - low.to(torch.int32)
    ratio = (mantissa - 1) / (mantissa + 1)  # ln m = 2 artanh(ratio), |ratio| < 0.172
    return 2 * ratio * _horner(ARTANH, ratio * ratio) + exponent.to(torch.float64) * log(2)


def _cos(turns: Tensor) -> Tensor:
    """cos(2 pi turns) for 0 <= turns < 1: the half turn's sine, by Taylor."""
    quarter = (turns - 0.5).abs() - 0.25  # cos(2 pi t) = sin(2 pi (|t - 1/2| - 1/4))
    angle = quarter * (2 * pi)
    return angle * _horner(SINE, angle * angle)


def _horner(coefficients: Sequence[float], x: Tensor) -> Tensor:
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total
