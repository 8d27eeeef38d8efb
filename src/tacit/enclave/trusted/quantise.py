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
from ...kernels.contraction import PRIME
from ...kernels.quantisation import MOST_EXPONENT, dequantise32
from ...ring import RING32, RING64, Ring

Round = Callable[[Tensor, int], Tensor]  # rounds floats times a power of two, at random


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
    modulus: int | None = None  # of results, for comparison with Goten

    @property
    def most_terms(self) -> int:
        """How many products may be added up: each is at most 2^(2 bits - 2)."""
        return (self.bound - 1) >> 2 * (self.bits - 1)

    def quantise(self, x: Tensor, most: float, rounded: Round) -> Quantised:
        """Returns integers for a tensor of floats; RangeError for NaN and infinities.

        most: max|x|. `rounded(x, n)` returns int8 for x 2^n, rounded at random.
        """
        x = x.contiguous()  # random words meet elements in their order, whatever the strides
        exponent = _exponent(most) - self.bits + 2
        if not self.stochastic:
            return Quantised(_scaled(x, -exponent).round().to(self.dtype), exponent)
        if abs(exponent) > MOST_EXPONENT:
            return Quantised(rounded(_scaled(x.double(), -exponent), 0), exponent)
        return Quantised(rounded(x, -exponent), exponent)

    def reduced(self, values: Tensor) -> Tensor:
        """Returns results as they are, or the representatives next to 0 mod the modulus."""
        if self.modulus is None:
            return values
        half = self.modulus // 2
        return (values.long() + half) % self.modulus - half


# "goten" gives what its workers compute mod q = 2^21 - 9: sums beyond q / 2 wrap unnoticed. It is
# here to be compared with.
PRECISIONS = {
    "swalp": Precision(8, torch.int8, RING32, True, 1 << 31),
    "goten": Precision(8, torch.int8, RING32, True, 1 << 31, (1 << 21) - 9),
    "fixed": Precision(22, torch.int64, RING64, False, PRIME // 2),
}


def find_precision(name: str) -> Precision:
    """Returns the precision of this name."""
    if name not in PRECISIONS:
        raise ConfigError(f"precision={name!r}", limit=f"allowed are {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def dequantise(values: Tensor, exponent: int, dtype: torch.dtype) -> Tensor:
    """Returns the numbers of integers, rounded to `dtype`."""
    if dtype == torch.float32 and values.dtype == torch.int32 and abs(exponent) <= MOST_EXPONENT:
        return dequantise32(values, exponent)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return _scaled(values.to(wide), exponent).to(dtype)


def _exponent(most: float) -> int:
    """Returns floor(log2 most), and 0 for 0."""
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
    if abs(exponent) <= MOST_EXPONENT:
        return x * 2.0**exponent
    half = exponent // 2
    return (x.double() * 2.0**half * 2.0 ** (exponent - half)).to(x.dtype)
