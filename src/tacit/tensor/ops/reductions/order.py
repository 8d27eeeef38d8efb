"""Largest and smallest elements, their places, and sorting."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Value
from ...operand import Dims
from ...table import implements

aten = torch.ops.aten

Pair = tuple[Value, Value]


@implements(aten.amax.default)
def amax(n: Numbers, self: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return n.amax(self, dim, keepdim=keepdim)


@implements(aten.amin.default)
def amin(n: Numbers, self: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return n.amin(self, dim, keepdim=keepdim)


@implements(aten.aminmax.default)
def aminmax(n: Numbers, self: Value, *, dim: int | None = None, keepdim: bool = False) -> Pair:
    return n.amin(self, dim, keepdim=keepdim), n.amax(self, dim, keepdim=keepdim)


@implements(aten.max.default)
def max_(n: Numbers, self: Value) -> Value:
    return n.amax(self)


@implements(aten.min.default)
def min_(n: Numbers, self: Value) -> Value:
    return n.amin(self)


@implements(aten.max.dim)
def max_dim(n: Numbers, self: Value, dim: int, keepdim: bool = False) -> Pair:
    return n.max_with_index(self, dim, keepdim=keepdim)


@implements(aten.min.dim)
def min_dim(n: Numbers, self: Value, dim: int, keepdim: bool = False) -> Pair:
    return n.min_with_index(self, dim, keepdim=keepdim)


@implements(aten.argmax.default)
def argmax(n: Numbers, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return n.max_with_index(self, dim, keepdim=keepdim)[1]


@implements(aten.argmin.default)
def argmin(n: Numbers, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return n.min_with_index(self, dim, keepdim=keepdim)[1]


@implements(aten.sort.default)
def sort(n: Numbers, self: Value, dim: int = -1, descending: bool = False) -> Pair:
    return n.sort(self, dim, descending=descending)


@implements(aten.sort.stable)
def sort_stable(
    n: Numbers, self: Value, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> Pair:
    return n.sort(self, dim, descending=descending)


@implements(aten.argsort.default)
def argsort(n: Numbers, self: Value, dim: int = -1, descending: bool = False) -> Value:
    return n.sort(self, dim, descending=descending)[1]


@implements(aten.argsort.stable)
def argsort_stable(
    n: Numbers, self: Value, *, stable: bool, dim: int = -1, descending: bool = False
) -> Value:
    return n.sort(self, dim, descending=descending)[1]


@implements(aten.topk.default)
def topk(
    n: Numbers, self: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Pair:
    return n.sort(self, dim, descending=largest, k=k)


@implements(aten.kthvalue.default)
def kthvalue(n: Numbers, self: Value, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    return n.kth_smallest(self, k, dim, keepdim=keepdim)


@implements(aten.median.default, aten.nanmedian.default)
def median(n: Numbers, self: Value) -> Value:
    flat = self.map(torch.flatten)
    return n.kth_smallest(flat, (flat.shape[0] + 1) // 2, 0)[0]


@implements(aten.median.dim, aten.nanmedian.dim)
def median_dim(n: Numbers, self: Value, dim: int, keepdim: bool = False) -> Pair:
    size = self.shape[dim] if self.shape else 1
    return n.kth_smallest(self, (size + 1) // 2, dim, keepdim=keepdim)
