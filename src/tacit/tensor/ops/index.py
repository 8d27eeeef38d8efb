"""Elements picked and placed: at public places directly, at secret places by one-hot products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import UnsupportedOp
from ...fixedpoint import Numbers, Operand, Value
from ..table import implements
from .groups import scatter_groups

aten = torch.ops.aten

Index = Value | Tensor


def _moved(x: Operand, change: Callable[[Tensor], Tensor]) -> Operand:
    return x.map(change) if isinstance(x, Value) else change(torch.as_tensor(x))


@implements(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(n: Numbers, self: Operand, indices: Sequence[Index | None]) -> Operand:
    secret = [i for i, one in enumerate(indices) if isinstance(one, Value)]
    if not secret:
        return _moved(self, lambda part: aten.index(part, indices))
    place = indices[secret[0]]
    assert isinstance(place, Value)
    if place.is_bit:
        raise UnsupportedOp(
            "x[mask] with a secret mask: how many elements it picks would be revealed; "
            "torch.where(mask, x, 0) and sums of it keep the shape"
        )
    if sum(one is not None for one in indices) > 1:
        raise UnsupportedOp(
            "x[i, j] with a secret index among several: index one dimension after the other"
        )
    dim, count = secret[0], len(place.shape)
    found = n.rows(_moved(self, lambda part: part.movedim(dim, 0)), place, wraps=True)
    where = list(range(dim, dim + count))
    return found.map(lambda part: part.movedim(list(range(count)), where))


@implements(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    n: Numbers,
    self: Operand,
    indices: Sequence[Index | None],
    values: Operand,
    accumulate: bool = False,
) -> Value:
    mask = indices[0] if len(indices) == 1 else None
    if isinstance(mask, Value) and mask.is_bit and _single(values) and not accumulate:
        extra = [1] * (len(self.shape) - len(mask.shape))  # type: ignore[union-attr]
        wide = mask.map(lambda part: part.reshape(*part.shape, *extra))
        return _like(n, n.where(wide, values, self), self)
    secret = [i for i, one in enumerate(indices) if isinstance(one, Value)]
    if secret and accumulate and sum(one is not None for one in indices) == 1:
        return _added(n, self, secret[0], indices[secret[0]], values)  # type: ignore[arg-type]
    if secret:
        raise UnsupportedOp(
            "x[i] = y with a secret index: torch.scatter takes secret places along one dimension, "
            "torch.where(mask, y, x) a secret mask"
        )

    if not accumulate:
        return _replaced(n, self, values, lambda places: aten.index(places, indices))
    return _placed(
        n, self, values, lambda a, b: aten.index_put(a, indices, b, accumulate=True), adds=True
    )


def _added(n: Numbers, self: Operand, dim: int, index: Value, values: Operand) -> Value:
    """self with values added to those of its rows along `dim` that a secret index names."""
    shape, count = list(self.shape), len(index.shape)  # type: ignore[union-attr]
    size = [*shape[:dim], *index.shape, *shape[dim + 1 :]]
    where = list(range(dim, dim + count))
    moved = _moved(values, lambda part: part.expand(size).movedim(where, list(range(count))))
    total = n.rows_back(moved, index, shape[dim], wraps=True)
    return n.add(self, total.map(lambda part: part.movedim(0, dim)))


def _single(values: Operand) -> bool:
    return not isinstance(values, Value | Tensor) or values.shape.numel() == 1


def _like(n: Numbers, made: Value, self: Operand) -> Value:
    return n.convert(made, self.dtype) if isinstance(self, Value | Tensor) else made


@implements(aten.index_select.default)
def index_select(n: Numbers, self: Operand, dim: int, index: Index) -> Operand:
    if not isinstance(index, Value):
        return _moved(self, lambda part: part.index_select(dim, index.to(part.device)))
    count = max(len(self.shape), 1)  # type: ignore[union-attr]
    front = _moved(self, lambda part: torch.atleast_1d(part).movedim(dim % count, 0))
    found = n.rows(front, index)
    return found.map(lambda part: part.movedim(0, dim % count))


@implements(aten.take.default)
def take(n: Numbers, self: Operand, index: Index) -> Operand:
    if not isinstance(index, Value):
        return _moved(self, lambda part: part.take(index.to(part.device)))
    return n.rows(_moved(self, torch.flatten), index, wraps=True)


@implements(aten.gather.default)
def gather(n: Numbers, self: Operand, dim: int, index: Index, *, sparse_grad: bool = False) -> Any:
    if not isinstance(index, Value):
        return _moved(self, lambda part: part.gather(dim, index.to(part.device)))
    return n.gather(self, dim, index)


@implements(aten.scatter.src)
def scatter(n: Numbers, self: Operand, dim: int, index: Index, src: Operand) -> Value:
    if isinstance(index, Value):
        return _like(n, n.scatter(self, dim, index, src), self)
    corner = tuple(slice(size) for size in index.shape)
    source = _moved(src, lambda part: part[corner])
    return _replaced(n, self, source, lambda places: places.gather(dim, index.to(places.device)))


@implements(aten.scatter.value)
def scatter_value(n: Numbers, self: Operand, dim: int, index: Index, value: float) -> Value:
    if isinstance(index, Value):
        return _like(n, n.scatter(self, dim, index, value), self)
    return scatter(n, self, dim, index, torch.full(index.shape, value))


@implements(aten.scatter_add.default)
def scatter_add(n: Numbers, self: Operand, dim: int, index: Index, src: Operand) -> Value:
    if isinstance(index, Value):
        return _like(n, n.scatter_add(self, dim, index, src), self)
    return _placed(n, self, src, lambda a, b: a.scatter_add(dim, index.to(a.device), b), adds=True)


@implements(aten.scatter.reduce, aten.scatter.value_reduce, aten.scatter_reduce.two)
def scatter_reduce(
    n: Numbers,
    self: Operand,
    dim: int,
    index: Index,
    src: Operand,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    if reduce in ("sum", "add") and include_self:
        return scatter_add(n, self, dim, index, src)
    places = _public(f"scatter_reduce with reduce={reduce!r}", index)
    return _like(n, scatter_groups(n, self, dim, places, src, reduce, include_self), self)


def _replaced(
    n: Numbers, self: Operand, source: Operand, picked: Callable[[Tensor], Tensor]
) -> Value:
    """`self` with elements of `source` at public places; of several for one place the last counts.

    `picked` picks from a tensor like `self` what the source replaces. torch leaves open which of
    several counts, and a GPU decides for each part anew: then they would be of different secrets.
    """
    shape = self.shape  # type: ignore[union-attr]
    places = picked(torch.arange(shape.numel(), device=n.device).view(shape))
    numbers = torch.arange(places.numel(), device=n.device)
    nobody = torch.full((shape.numel(),), -1, device=n.device)
    last = nobody.scatter_reduce(0, places.flatten(), numbers, "amax").view(shape)

    def change(old: Tensor, new: Tensor) -> Tensor:
        if not places.numel():
            return old.clone()
        chosen = new.expand(places.shape).reshape(-1)[last.clamp_min(0)]
        return torch.where(last >= 0, chosen, old)

    return _placed(n, self, source, change)


def _placed(
    n: Numbers,
    self: Operand,
    source: Operand,
    change: Callable[[Tensor, Tensor], Tensor],
    *,
    adds: bool = False,
) -> Value:
    made = n.joined([self, source], lambda parts: change(*parts), adds=adds)
    return _like(n, made, self)


def _public(name: str, index: Index) -> Tensor:
    if isinstance(index, Value):
        raise UnsupportedOp(f"{name} with a secret index: torch.scatter and scatter_add take one")
    return index


@implements(aten.index_add.default)
def index_add(
    n: Numbers, self: Operand, dim: int, index: Index, source: Operand, *, alpha: float = 1
) -> Value:
    scaled = source if alpha == 1 else n.mul(n.operand(source), alpha)
    if isinstance(index, Value):
        return _added(n, self, dim % len(self.shape), index, scaled)  # type: ignore[union-attr]
    places = index
    return _placed(
        n, self, scaled, lambda a, b: a.index_add(dim, places.to(a.device), b), adds=True
    )


@implements(aten.index_copy.default)
def index_copy(n: Numbers, self: Operand, dim: int, index: Index, source: Operand) -> Value:
    places = _public("index_copy", index)
    return _replaced(n, self, source, lambda ids: ids.index_select(dim, places.to(ids.device)))


@implements(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(n: Numbers, self: Operand, dim: int, index: Index, value: Operand) -> Value:
    places = _public("index_fill", index)
    mask = torch.zeros(self.shape, dtype=torch.bool).index_fill(dim, places, 1)  # type: ignore[union-attr]
    return _like(n, n.where(mask, value, self), self)


@implements(aten.put.default)
def put(
    n: Numbers, self: Operand, index: Index, source: Operand, accumulate: bool = False
) -> Value:
    places = _public("put", index)
    if not accumulate:
        flat = _moved(source, lambda part: part.reshape(places.shape))
        return _replaced(n, self, flat, lambda ids: ids.take(places.to(ids.device)))
    return _placed(
        n, self, source, lambda a, b: a.put(places.to(a.device), b, accumulate=True), adds=True
    )


@implements(aten.masked_scatter_backward.default)
def masked_scatter_backward(
    n: Numbers, grad_output: Operand, mask: Index, sizes: Sequence[int]
) -> Operand:
    chosen = _public("masked_scatter", mask)
    return _moved(
        grad_output, lambda part: aten.masked_scatter_backward(part, chosen.to(part.device), sizes)
    )
