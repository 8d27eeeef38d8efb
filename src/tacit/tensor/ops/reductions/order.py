"""Largest and smallest elements, their indices, and sorting."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Value
from ...operand import Dims
from ...table import implements

aten = torch.ops.aten

Pair = tuple[Value, Value]


@implements(aten.amax.default)
def amax(n: Numbers, self: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    """The largest over dimensions, by a tournament with log2 of the size rounds of comparisons."""
    return n.amax(self, dim, keepdim=keepdim)


@implements(aten.amin.default)
def amin(n: Numbers, self: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    """The smallest over dimensions, by a tournament."""
    return n.amin(self, dim, keepdim=keepdim)


@implements(aten.aminmax.default)
def aminmax(n: Numbers, self: Value, *, dim: int | None = None, keepdim: bool = False) -> Pair:
    """The smallest and the largest along a dimension."""
    return n.amin(self, dim, keepdim=keepdim), n.amax(self, dim, keepdim=keepdim)


@implements(aten.max.default)
def max_(n: Numbers, self: Value) -> Value:
    """The largest of all elements."""
    return n.amax(self)


@implements(aten.min.default)
def min_(n: Numbers, self: Value) -> Value:
    """The smallest of all elements."""
    return n.amin(self)


@implements(aten.max.dim)
def max_dim(n: Numbers, self: Value, dim: int, keepdim: bool = False) -> Pair:
    """The largest along a dimension and its secret index; of equals the first."""
    return n.max_with_index(self, dim, keepdim=keepdim)


@implements(aten.min.dim)
def min_dim(n: Numbers, self: Value, dim: int, keepdim: bool = False) -> Pair:
    """The smallest along a dimension and its secret index; of equals the first."""
    return n.min_with_index(self, dim, keepdim=keepdim)


@implements(aten.argmax.default)
def argmax(n: Numbers, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The secret index of the largest."""
    return n.max_with_index(self, dim, keepdim=keepdim)[1]


@implements(aten.argmin.default)
def argmin(n: Numbers, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The secret index of the smallest."""
    return n.min_with_index(self, dim, keepdim=keepdim)[1]


@implements(aten.sort.default)
def sort(n: Numbers, self: Value, dim: int = -1, descending: bool = False) -> Pair:
    """The sorted elements and their secret indices."""
    return n.sort(self, dim, descending=descending)


@implements(aten.sort.stable)
def sort_stable(
    n: Numbers, self: Value, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> Pair:
    """The same: every sort is stable."""
    return n.sort(self, dim, descending=descending)


@implements(aten.argsort.default)
def argsort(n: Numbers, self: Value, dim: int = -1, descending: bool = False) -> Value:
    """The secret indices that sort."""
    return n.sort(self, dim, descending=descending)[1]


@implements(aten.argsort.stable)
def argsort_stable(
    n: Numbers, self: Value, *, stable: bool, dim: int = -1, descending: bool = False
) -> Value:
    """The same: every sort is stable."""
    return n.sort(self, dim, descending=descending)[1]


@implements(aten.topk.default)
def topk(
    n: Numbers, self: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Pair:
    """The k largest or smallest in order, with their secret indices."""
    return n.sort(self, dim, descending=largest, k=k)


@implements(aten.kthvalue.default)
def kthvalue(n: Numbers, self: Value, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    """The k-th smallest along a dimension and its secret index."""
    return n.kth_smallest(self, k, dim, keepdim=keepdim)


@implements(aten.median.default, aten.nanmedian.default)
def median(n: Numbers, self: Value) -> Value:
    """The median of all elements, of two the lower."""
    flat = self.map(torch.flatten)
    return n.kth_smallest(flat, (flat.shape[0] + 1) // 2, 0)[0]


@implements(aten.median.dim, aten.nanmedian.dim)
def median_dim(n: Numbers, self: Value, dim: int, keepdim: bool = False) -> Pair:
    """The median along a dimension, of two the lower, and its secret index."""
    size = self.shape[dim] if self.shape else 1
    return n.kth_smallest(self, (size + 1) // 2, dim, keepdim=keepdim)
