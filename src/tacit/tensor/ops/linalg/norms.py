"""Norms of vectors, distances between rows, and the vector product."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ....protocols import Einsum
from ...operand import Array, Dims
from ...table import implements

aten = torch.ops.aten


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
    """Norms of orders from 0 to 3, and of the infinities; gradients of others leave the range."""
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
    if not 0 < order <= 3:
        orders = "there are those from 0 to 3, inf and -inf"
        raise UnsupportedOp(f"a norm of order {order} of secrets", limit=orders)
    return _of_powers(n, x, order, dim, keepdim)


def _of_powers(n: Numbers, x: Value, order: float, dim: Dims, keepdim: bool) -> Value:
    """The largest times the norm of the ratios to it: powers of larger numbers leave the range."""
    if not x.shape.numel():
        return n.total(x, dim, keepdim=keepdim)
    sizes = n.settled(n.absolute(x))
    largest = n.settled(n.amax(sizes, dim, keepdim=True))
    powers = n.pow(n.div(sizes, largest, positive=True), order)
    if order < 1:  # a power of zero is taken for that of a unit, which is not small
        powers = n.where(n.equal(sizes, 0), 0, powers)
    root = n.mul(n.pow(n.total(powers, dim, keepdim=True), 1 / order), largest)
    shape = n.reduced_shape(x, dim, keepdim=keepdim)
    return root.map(lambda part: part.reshape(shape))


@implements(aten.norm.Scalar)
def norm(n: Numbers, self: Value, p: float = 2) -> Value:
    """The norm of all elements."""
    return linalg_vector_norm(n, self, p)


@implements(aten.norm.ScalarOpt_dim)
def norm_dim(n: Numbers, self: Value, p: float | None, dim: Dims, keepdim: bool = False) -> Value:
    """The norm over dimensions."""
    return linalg_vector_norm(n, self, 2 if p is None else p, dim or None, keepdim)


@implements(aten.norm.ScalarOpt_dtype)
def norm_dtype(n: Numbers, self: Value, p: float | None, *, dtype: torch.dtype) -> Value:
    """The norm of all elements, in another dtype."""
    return linalg_vector_norm(n, self, 2 if p is None else p, dtype=dtype)


@implements(aten.norm.ScalarOpt_dim_dtype)
def norm_dim_dtype(
    n: Numbers, self: Value, p: float | None, dim: Dims, keepdim: bool, *, dtype: torch.dtype
) -> Value:
    """The norm over dimensions, in another dtype."""
    return linalg_vector_norm(n, self, 2 if p is None else p, dim or None, keepdim, dtype=dtype)


@implements(aten.dist.default)
def dist(n: Numbers, self: Operand, other: Operand, p: float = 2) -> Value:
    """The norm of the difference."""
    return linalg_vector_norm(n, n.sub(self, other), p)


# Distances between all pairs of rows --------------------------------------------------------------


@implements(aten._cdist_forward.default)
def cdist_forward(n: Numbers, x1: Array, x2: Array, p: float, compute_mode: int | None) -> Operand:
    """Distances of order p; those of Euclid are below the root of the range."""
    return _lengths(n, _differences(n, x1, x2), p)


@implements(aten._cdist_backward.default)
def cdist_backward(
    n: Numbers, grad: Array, x1: Array, x2: Array, p: float, cdist: Value
) -> Operand:
    """The gradient by x1; 0 for pairs at distance 0."""
    difference = _differences(n, x1, x2)
    if p == 2:
        ratio = n.div(grad, cdist, positive=True)
        names = _names(difference)
        rows = names[:-2] + names[-1]
        return n.bilinear(Einsum(f"{names[:-1]},{names}->{rows}"), ratio, difference)
    return n.total(_slopes(n, grad, difference, cdist, p), [-2])


@implements(aten._pdist_forward.default)
def pdist_forward(n: Numbers, self: Value, p: float = 2.0) -> Operand:
    """The distances between the rows of one matrix, each pair once."""
    return _lengths(n, _pairs(n, self), p)


@implements(aten._pdist_backward.default)
def pdist_backward(n: Numbers, grad: Array, self: Value, p: float, pdist: Value) -> Operand:
    """The gradient by the rows: each pair adds to both of its rows."""
    first, second = torch.triu_indices(self.shape[0], self.shape[0], 1).to(n.device)
    slopes = _slopes(n, grad, _pairs(n, self), pdist, p)

    def gathered(part: Tensor) -> Tensor:
        rows = part.new_zeros(tuple(self.shape)).index_add_(0, first, part)
        return rows.index_add_(0, second, -part)

    share = n.settled(slopes).arith
    limit = share.limit * max(self.shape[0], 1)
    return Value(share.map(gathered, limit=limit), slopes.dtype)


@implements(aten.linalg_cross.default)
def linalg_cross(n: Numbers, self: Array, other: Array, *, dim: int = -1) -> Value:
    """The vector product: two products of the components, moved by one and by two."""
    a, b = n.operand(self), n.operand(other)

    def moved(x: Value, by: int) -> Value:
        return x.map(lambda part: part.roll(-by, dim))

    return n.sub(n.mul(moved(a, 1), moved(b, 2)), n.mul(moved(a, 2), moved(b, 1)))


def _differences(n: Numbers, x1: Array, x2: Array) -> Value:
    """Every row of x1 less every row of x2."""
    first = n.operand(x1).map(lambda part: part.unsqueeze(-2))
    second = n.operand(x2).map(lambda part: part.unsqueeze(-3))
    return n.settled(n.sub(first, second))


def _pairs(n: Numbers, x: Value) -> Value:
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return n.settled(n.sub(x.map(lambda part: part[first]), x.map(lambda part: part[second])))


def _lengths(n: Numbers, x: Value, p: float) -> Value:
    """The norm of order p over the last dimension."""
    if not x.shape[-1]:
        return n.total(x, [-1])
    if p == 2:
        names = _names(x)
        return n.sqrt(n.bilinear(Einsum(f"{names},{names}->{names[:-1]}"), x, x))
    if p == 0:
        return n.convert(n.count_nonzero(x, [-1]), x.dtype)
    sizes = n.absolute(x)
    if p == 1:
        return n.total(sizes, [-1])
    largest = n.settled(n.amax(sizes, [-1], keepdim=True))
    if p == inf:
        return largest.map(lambda part: part.squeeze(-1))
    powers = n.pow(n.div(sizes, largest, positive=True), p)  # powers of the sizes leave the range
    root = n.pow(n.total(powers, [-1]), 1 / p)
    return n.mul(root, largest.map(lambda part: part.squeeze(-1)))


def _slopes(n: Numbers, grad: Array, x: Value, length: Value, p: float) -> Value:
    """The gradient by each component: that by the length times sign(x) (|x| / length)^(p - 1)."""
    spread, size = (y.map(lambda part: part.unsqueeze(-1)) for y in (n.operand(grad), length))
    if p == 0:
        return n.mul(x, 0)
    if p == 2:
        return n.mul(n.div(spread, size, positive=True), x)
    directed = n.mul(n.sign(x), spread)
    if p == 1:
        return directed
    if p == inf:
        return n.mul(n.equal(n.absolute(x), size), directed)
    if p < 1:
        raise UnsupportedOp(
            f"the gradient of distances of order {p}", limit="it has no bound near 0"
        )
    return n.mul(n.pow(n.div(n.absolute(x), size, positive=True), p - 1), directed)


def _names(x: Value) -> str:
    return "abcdefghijklmnop"[: len(x.shape)]
