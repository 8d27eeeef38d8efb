"""Numbers as small integers times a power of two, which every tensor chooses anew.

x ≈ q 2^n with |q| <= 2^(bits - 1), where n = E - bits + 2 and E = floor(log2 max|x|). Goten and
SWALP (Yang et al., 2019) use 8 bits and round up with the probability of the fraction, so that q is
right on average; `fixed` uses 22 bits and rounds to nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import frexp, isfinite, isnan
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import ConfigError, RangeError
from ...ring import RING32, RING64, Ring
from .freivalds import PRIME

_NORMAL = 120  # powers of two up to here are ordinary numbers of float32, and their inverses too
_RANDOM_BITS = 24  # of the number that a fraction is compared with

Draw = Callable[[Tensor], Tensor]  # fills an int32 tensor with uniform words


class Quantised(NamedTuple):
    """Integers q, and n: together the numbers q 2^n."""

    values: Tensor
    exponent: int


@dataclass(frozen=True)
class Precision:
    """How numbers become integers. A sum of products is below `bound` in absolute value."""

    bits: int
    dtype: torch.dtype  # of the integers
    ring: Ring  # of masks and results
    stochastic: bool
    bound: int

    @property
    def most_terms(self) -> int:
        """How many products may be added up: each is at most 2^(2 bits - 2)."""
        return (self.bound - 1) >> 2 * (self.bits - 1)

    def quantise(self, x: Tensor, draw: Draw) -> Quantised:
        """Returns integers for a tensor of finite floats; RangeError for NaN and infinities.

        `draw` fills words for stochastic rounding. Its probabilities are off by at most 2^-24.
        """
        x = x.contiguous()  # words meet elements in their order, whatever the strides
        exponent = _exponent(x) - self.bits + 2
        y = _scaled(x, -exponent)
        if not self.stochastic:
            return Quantised(y.round().to(self.dtype), exponent)
        low = y.floor()
        words = draw(torch.empty(x.shape, dtype=torch.int32, device=x.device))
        random = (words & ((1 << _RANDOM_BITS) - 1)).to(y.dtype).mul_(2.0**-_RANDOM_BITS)
        low += random < y - low
        most = 1 << (self.bits - 1)
        return Quantised(low.clamp_(-most, most - 1).to(self.dtype), exponent)


PRECISIONS = {
    "swalp": Precision(8, torch.int8, RING32, True, 1 << 31),
    "fixed": Precision(22, torch.int64, RING64, False, PRIME // 2),
}


def find_precision(name: str) -> Precision:
    """Returns the precision of this name."""
    if name not in PRECISIONS:
        raise ConfigError(f"precision={name!r}", limit=f"allowed are {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def dequantise(values: Tensor, exponent: int, dtype: torch.dtype) -> Tensor:
    """Returns the numbers of integers, rounded to `dtype`."""
    return _scaled(values.to(dtype), exponent)


def _exponent(x: Tensor) -> int:
    """Returns floor(log2 max|x|), and 0 for zeros."""
    most = float(x.abs().amax())
    if not isfinite(most):
        number = "NaN" if isnan(most) else "infinite"
        raise RangeError(
            "an operand of a product is not finite",
            number=number,
            limit="the enclave multiplies finite numbers",
            remedy="look for the first module whose output is not finite, or lower the step size",
        )
    return frexp(most)[1] - 1 if most else 0


def _scaled(x: Tensor, exponent: int) -> Tensor:
    """Returns x 2^exponent in the dtype of x, also where float32 has no such power of two."""
    if abs(exponent) <= _NORMAL:
        return x * 2.0**exponent
    half = exponent // 2
    return (x.double() * 2.0**half * 2.0 ** (exponent - half)).to(x.dtype)
