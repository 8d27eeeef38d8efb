"""Public random numbers that all parties draw alike, from a key that they all have."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, pi

import torch
from torch import Tensor

from ..ring.deterministic import horner, logarithm
from .format import Format

BITS = 53  # of a float64
SINE = [(-1) ** i / factorial(2 * i + 1) for i in range(12)]  # for |angle| <= pi/2


def uniform(n: Format, shape: Sequence[int]) -> Tensor:
    """Multiples of 2^-53 in [0, 1), float64, the same at every party. No message."""
    context = n.protocol.context
    words = context.new_tape().draw(range(context.mesh.parties), shape, torch.int64)
    return (words & ((1 << BITS) - 1)).to(torch.float64) / 2.0**BITS


def normal(n: Format, shape: Sequence[int]) -> Tensor:
    """Normally distributed numbers, the same at every party (Box and Muller).

    Parties multiply their shares by these, so they must agree in every bit: see alike.py.
    """
    radius, angle = uniform(n, (2, *shape))
    return (-2 * logarithm(1 - radius)).sqrt() * _cos(angle)


def _cos(turns: Tensor) -> Tensor:
    """cos(2 pi turns) for 0 <= turns < 1: the half turn's sine, by Taylor."""
    quarter = (turns - 0.5).abs() - 0.25  # cos(2 pi t) = sin(2 pi (|t - 1/2| - 1/4))
    angle = quarter * (2 * pi)
    return angle * horner(SINE, angle * angle)
