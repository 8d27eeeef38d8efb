"""`crypten.encoder`: real numbers as integers of a fixed scale."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...config import Config
from .config import cfg
from .refused_call import RefusedAssertion
from .wrapping import REAL, Wrapped

__all__ = ["FixedPointEncoder", "nearest_integer_division"]


class FixedPointEncoder:
    """Encodes reals as multiples of 2^-precision_bits; by default as many as `cfg` says."""

    def __init__(self, precision_bits: int | None = None) -> None:
        bits = cfg["encoder.precision_bits"] if precision_bits is None else precision_bits
        self.precision_bits = bits if bits == 0 else Config(fraction_bits=bits).fraction_bits

    @property
    def scale(self) -> int:
        """The integer that encodes 1."""
        return 1 << self.precision_bits

    def encode(self, x: Any, device: Any = None) -> Any:
        """Returns the nearest integers; what is secret is encoded already."""
        if isinstance(x, Wrapped):
            return x
        given = torch.as_tensor(x, device=device)
        if not given.is_floating_point():
            return given.long() * self.scale
        return (given.double() * self.scale).round().long()

    def decode(self, tensor: Tensor) -> Tensor:
        """Returns the numbers that integers encode."""
        return (tensor.double() / self.scale).to(REAL) if self.precision_bits else tensor


def nearest_integer_division(tensor: Tensor, integer: int) -> Tensor:
    """Returns plain integers over a positive one, rounded to the nearest; halves towards 0."""
    if integer <= 0:
        raise RefusedAssertion(f"a division by {integer}", limit="a positive integer")
    less_than_half = tensor.sign() * ((integer - 1) // 2)
    return torch.div(tensor + less_than_half, integer, rounding_mode="trunc")
