"""Sums, means, products, variances and norms over dimensions."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Value
from ....fixedpoint.extended import mean_square
from ...operand import Dims
from ...table import implements

aten = torch.ops.aten


def _typed(n: Numbers, x: Value, dtype: torch.dtype | None) -> Value:
    return x if dtype is None else n.convert(x, dtype)


@implements(aten.sum.default, aten.sum.dim_IntList, lazy=True)
def sum_(
    n: Numbers,
    self: Value,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    """The sum over dimensions. Local."""
    return n.total(_typed(n, self, dtype), dim, keepdim=keepdim)


@implements(aten.mean.default, lazy=True)
@implements(aten.mean.dim)
def mean(
    n: Numbers,
    self: Value,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    """The mean over dimensions. Local; a division is pending."""
    return n.mean(_typed(n, self, dtype), dim, keepdim=keepdim)


@implements(aten.prod.default)
def prod(n: Numbers, self: Value, *, dtype: torch.dtype | None = None) -> Value:
    """The product of all elements, in log2 of their number rounds."""
    return n.prod(_typed(n, self, dtype))


@implements(aten.prod.dim_int)
def prod_dim(
    n: Numbers, self: Value, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Value:
    """The product along a dimension, in log2 of its size rounds."""
    return n.prod(_typed(n, self, dtype), dim, keepdim=keepdim)


@implements(aten.cumsum.default)
def cumsum(n: Numbers, self: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    """Running sums. Local."""
    self = _typed(n, self, dtype or (None if self.is_real else torch.int64))
    return n.cumsum(self, dim) if self.shape else self


@implements(aten.cumprod.default)
def cumprod(n: Numbers, self: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    """Running products, in log2 of the size rounds."""
    return n.cumprod(_typed(n, self, dtype or (None if self.is_real else torch.int64)), dim)


@implements(aten.var.correction)
def var(
    n: Numbers,
    self: Value,
    dim: Dims = None,
    *,
    correction: float | None = 1,
    keepdim: bool = False,
) -> Value:
    """The variance; of real numbers it keeps more fraction bits for the root that may follow."""
    by = 1 if correction is None else correction
    if float(by).is_integer() and self.is_real:
        found = mean_square.variance(n, self, dim, keepdim=keepdim, correction=int(by))
        if found is not None:
            return found
    return n.variance(self, dim, correction=by, keepdim=keepdim)[0]


@implements(aten.var_mean.correction)
def var_mean(
    n: Numbers,
    self: Value,
    dim: Dims = None,
    *,
    correction: float | None = 1,
    keepdim: bool = False,
) -> tuple[Value, Value]:
    """The variance and the mean over dimensions."""
    by = 1 if correction is None else correction
    return n.variance(self, dim, correction=by, keepdim=keepdim)


@implements(aten.count_nonzero.default, aten.count_nonzero.dim_IntList)
def count_nonzero(n: Numbers, self: Value, dim: Dims = None) -> Value:
    """How many elements are not 0."""
    return n.count_nonzero(self, dim)


@implements(aten.any.default, aten.any.dim, aten.any.dims)
def any_(n: Numbers, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """Whether one element is not 0."""
    return n.any(self, dim, keepdim=keepdim)


@implements(aten._is_any_true.default)
def is_any_true(n: Numbers, self: Value) -> Value | torch.Tensor:
    """Whether one element is true: torch's anomaly mode asks it of NaNs, and reads the answer.

    It is public where all elements are, as those of `isnan`.
    """
    return n.any(self) if self.known is None else self.known.any()


@implements(aten.all.default, aten.all.dim, aten.all.dims)
def all_(n: Numbers, self: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """Whether no element is 0."""
    return n.all(self, dim, keepdim=keepdim)
