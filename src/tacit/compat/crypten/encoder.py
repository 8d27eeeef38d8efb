"""`crypten.encoder`: real numbers as integers of a fixed scale."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...config import Config
from .config import cfg
from .wrapping import REAL

__all__ = ["FixedPointEncoder"]


class FixedPointEncoder:
    """Encodes reals as multiples of 2^-precision_bits; by default as many as `cfg` says."""

    def __init__(self, precision_bits: int | None = None) -> None:
        bits = cfg["encoder.precision_bits"] if precision_bits is None else precision_bits
        self.precision_bits = bits if bits == 0 else Config(fraction_bits=bits).fraction_bits

    @property
    def scale(self) -> int:
        """The integer that encodes 1."""
        return 1 << self.precision_bits

    def encode(self, x: Any, device: Any = None) -> Tensor:
        """Returns the nearest integers."""
        given = torch.as_tensor(x, device=device)
        if not given.is_floating_point():
            return given.long() * self.scale
        return (given.double() * self.scale).round().long()

    def decode(self, tensor: Tensor) -> Tensor:
        """Returns the numbers that integers encode."""
        return (tensor.double() / self.scale).to(REAL) if self.precision_bits else tensor
