"""Functions of public numbers that every machine computes alike, bit by bit.

Parties multiply their shares by public numbers and add them to one part that several hold: where
these differ in the last bit, the secret becomes noise, and nobody is told. The last bit of a
library's logarithm or product of matrices depends on the processor, and that of a sum on the order.
What is used here IEEE 754 defines.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

import torch
from torch import Tensor

ARTANH = [1 / (2 * i + 1) for i in range(12)]


def horner(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """The polynomial with these coefficients, the constant one first."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def logarithm(x: Tensor) -> Tensor:
    """The natural logarithm of float64: ln m + e ln 2, with m from sqrt(1/2) to sqrt(2)."""
    mantissa, exponent = torch.frexp(x)
    low = mantissa < sqrt(0.5)
    mantissa, exponent = torch.where(low, mantissa * 2, mantissa), exponent - low.to(torch.int32)
    ratio = (mantissa - 1) / (mantissa + 1)  # ln m = 2 artanh(ratio), |ratio| < 0.172
    return 2 * ratio * horner(ARTANH, ratio * ratio) + exponent.to(torch.float64) * log(2)


def total(x: Tensor, dims: Sequence[int] = (), *, keepdim: bool = False) -> Tensor:
    """The sum over dimensions, or of all; in float64 that of shorter floats is exact."""
    if not x.is_floating_point():
        return x.sum(tuple(dims), keepdim=keepdim)
    return x.sum(tuple(dims), keepdim=keepdim, dtype=torch.float64).to(x.dtype)
