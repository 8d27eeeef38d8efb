"""Public random numbers that all parties draw alike, from a key that they all have."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .numbers import Numbers

BITS = 53  # of a float64


def uniform(n: Numbers, shape: Sequence[int]) -> Tensor:
    """Multiples of 2^-53 in [0, 1), float64, the same at every party. No message."""
    context = n.protocol.context
    words = context.new_tape().draw(range(context.mesh.parties), shape, torch.int64)
    return (words & ((1 << BITS) - 1)).to(torch.float64) / 2.0**BITS


def normal(n: Numbers, shape: Sequence[int]) -> Tensor:
    """Normally distributed numbers, the same at every party (Box and Muller)."""
    radius, angle = uniform(n, (2, *shape))
    return (-2 * (1 - radius).log()).sqrt() * (2 * pi * angle).cos()
