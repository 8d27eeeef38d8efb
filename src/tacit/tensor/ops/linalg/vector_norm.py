"""Norms, and distances by them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten

Dims = Sequence[int] | int | None


@implements(aten.linalg_vector_norm.default)
def linalg_vector_norm(
    n: Numbers,
    self: Value,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    """Norms of order 0, from 1 to 3, and of the infinities; gradients of others are too coarse."""
    x = self if self.is_real else n.convert(self, torch.get_default_dtype())
    return n.convert(_norm(n, x, float(ord), dim, keepdim), dtype or x.dtype)


def _norm(n: Numbers, x: Value, order: float, dim: Dims, keepdim: bool) -> Value:
    if order == 2:
        return n.vector_norm(x, dim, keepdim=keepdim)
    if order == 0:
        return n.convert(n.count_nonzero(x, dim, keepdim=keepdim), x.dtype)
    if order == 1:
        return n.total(n.absolute(x), dim, keepdim=keepdim)
    if order == inf:
        return n.amax(n.absolute(x), dim, keepdim=keepdim)
    if order == -inf:
        return n.amin(n.absolute(x), dim, keepdim=keepdim)
    if not 1 <= order <= 3:
        orders = "there are 0, those from 1 to 3, inf and -inf"
        raise UnsupportedOp(f"a norm of order {order} of secrets: {orders}")
    return _of_powers(n, x, order, dim, keepdim)


def _of_powers(n: Numbers, x: Value, order: float, dim: Dims, keepdim: bool) -> Value:
    """The largest times a root of powers of what is at most 1: others would leave the range."""
    sizes = n.settled(n.absolute(x))
    largest = n.settled(n.amax(sizes, dim, keepdim=True))
    powers = n.pow(n.div(sizes, largest, positive=True), order)
    root = n.mul(n.pow(n.total(powers, dim, keepdim=True), 1 / order), largest)
    shape = n.reduced_shape(x, dim, keepdim=keepdim)
    return root.map(lambda part: part.reshape(shape))


@implements(aten.norm.Scalar)
def norm(n: Numbers, self: Value, p: float = 2) -> Value:
    return linalg_vector_norm(n, self, p)


@implements(aten.norm.ScalarOpt_dim)
def norm_dim(n: Numbers, self: Value, p: float | None, dim: Dims, keepdim: bool = False) -> Value:
    return linalg_vector_norm(n, self, 2 if p is None else p, dim or None, keepdim)


@implements(aten.norm.ScalarOpt_dtype)
def norm_dtype(n: Numbers, self: Value, p: float | None, *, dtype: torch.dtype) -> Value:
    return linalg_vector_norm(n, self, 2 if p is None else p, dtype=dtype)


@implements(aten.norm.ScalarOpt_dim_dtype)
def norm_dim_dtype(
    n: Numbers, self: Value, p: float | None, dim: Dims, keepdim: bool, *, dtype: torch.dtype
) -> Value:
    return linalg_vector_norm(n, self, 2 if p is None else p, dim or None, keepdim, dtype=dtype)


@implements(aten.dist.default)
def dist(n: Numbers, self: Operand, other: Operand, p: float = 2) -> Value:
    return linalg_vector_norm(n, n.sub(self, other), p)
