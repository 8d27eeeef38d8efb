"""Reading and writing elements by index: local for public ones, by one-hot products for secret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...operand import Array, mapped
from ...table import implements
from .scatter_reduce import scatter_groups

aten = torch.ops.aten


@implements(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(n: Numbers, self: Operand, indices: Sequence[Array | None]) -> Operand:
    """self[indices]. Public indices: local; a secret one: a one-hot product along its dimension."""
    secret = [i for i, one in enumerate(indices) if isinstance(one, Value)]
    if not secret:
        return mapped(self, lambda part: aten.index(part, indices))
    place = indices[secret[0]]
    assert isinstance(place, Value)
    if place.is_bit:
        raise UnsupportedOp(
            "x[mask] with a secret mask",
            limit="how many elements it picks would be revealed",
            remedy="torch.where(mask, x, 0) and sums of it keep the shape",
        )
    if sum(one is not None for one in indices) > 1:
        raise UnsupportedOp(
            "x[i, j] with a secret index among several",
            remedy="index one dimension after the other",
        )
    dim, count = secret[0], len(place.shape)
    found = n.take_rows(mapped(self, lambda part: part.movedim(dim, 0)), place, wraps=True)
    where = list(range(dim, dim + count))
    return found.map(lambda part: part.movedim(list(range(count)), where))


@implements(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    n: Numbers,
    self: Operand,
    indices: Sequence[Array | None],
    values: Operand,
    accumulate: bool = False,
) -> Value:
    """self with `self[indices] = values`, or `+=`; a secret mask takes one number as values."""
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
            "x[i] = y with a secret index",
            remedy="torch.scatter takes secret places along one dimension, torch.where(mask, y, x) "
            "a secret mask",
        )

    if not accumulate:
        return _replaced(
            n,
            self,
            values,
            lambda ids: aten.index(ids, indices),
            lambda a, b: aten.index_put(a, indices, b),
            lambda new, ids: new.expand(ids.shape),
        )
    return _placed(
        n, self, values, lambda a, b: aten.index_put(a, indices, b, accumulate=True), adds=True
    )


def _added(n: Numbers, self: Operand, dim: int, index: Value, values: Operand) -> Value:
    """self with values added to those of its rows along `dim` that a secret index names."""
    shape, count = list(self.shape), len(index.shape)  # type: ignore[union-attr]
    size = [*shape[:dim], *index.shape, *shape[dim + 1 :]]
    where = list(range(dim, dim + count))
    moved = mapped(values, lambda part: part.expand(size).movedim(where, list(range(count))))
    total = n.take_rows_backward(moved, index, shape[dim], wraps=True)
    return n.add(self, total.map(lambda part: part.movedim(0, dim)))


def _single(values: Operand) -> bool:
    return not isinstance(values, Value | Tensor) or values.shape.numel() == 1


def _like(n: Numbers, made: Value, self: Operand) -> Value:
    return n.convert(made, self.dtype) if isinstance(self, Value | Tensor) else made


@implements(aten.index_select.default)
def index_select(n: Numbers, self: Operand, dim: int, index: Array) -> Operand:
    """Rows along a dimension; a secret index costs a one-hot product."""
    if not isinstance(index, Value):
        return mapped(self, lambda part: part.index_select(dim, index.to(part.device)))
    count = max(len(self.shape), 1)  # type: ignore[union-attr]
    front = mapped(self, lambda part: torch.atleast_1d(part).movedim(dim % count, 0))
    found = n.take_rows(front, index)
    return found.map(lambda part: part.movedim(0, dim % count))


@implements(aten.take.default)
def take(n: Numbers, self: Operand, index: Array) -> Operand:
    """Elements of the flattened tensor; a secret index costs a one-hot product."""
    if not isinstance(index, Value):
        return mapped(self, lambda part: part.take(index.to(part.device)))
    return n.take_rows(mapped(self, torch.flatten), index, wraps=True)


@implements(aten.gather.default)
def gather(n: Numbers, self: Operand, dim: int, index: Array, *, sparse_grad: bool = False) -> Any:
    """Elements by an index along a dimension; a secret index costs a one-hot product."""
    if not isinstance(index, Value):
        return mapped(self, lambda part: part.gather(dim, index.to(part.device)))
    return n.gather(self, dim, index)


@implements(aten.scatter.src)
def scatter(n: Numbers, self: Operand, dim: int, index: Array, src: Operand) -> Value:
    """self with elements replaced at an index; of several for one place, the last counts."""
    if isinstance(index, Value):
        return _like(n, n.scatter(self, dim, index, src), self)
    place = index.to(n.device)
    return _replaced(
        n,
        self,
        src,
        lambda ids: ids.gather(dim, place),
        lambda a, b: a.scatter(dim, place, b),
        _corner,
    )


@implements(aten.scatter.value)
def scatter_value(n: Numbers, self: Operand, dim: int, index: Array, value: float) -> Value:
    """self with one number at an index."""
    if isinstance(index, Value):
        return _like(n, n.scatter(self, dim, index, value), self)
    place = index.to(n.device)
    full = torch.full(index.shape, value)
    return _placed(n, self, full, lambda a, b: a.scatter(dim, place, b))


@implements(aten.scatter_add.default)
def scatter_add(n: Numbers, self: Operand, dim: int, index: Array, src: Operand) -> Value:
    """self with elements added at an index; a secret index costs a one-hot product."""
    if isinstance(index, Value):
        return _like(n, n.scatter_add(self, dim, index, src), self)
    return _placed(n, self, src, lambda a, b: a.scatter_add(dim, index.to(a.device), b), adds=True)


@implements(aten.scatter.reduce, aten.scatter.value_reduce, aten.scatter_reduce.two)
def scatter_reduce(
    n: Numbers,
    self: Operand,
    dim: int,
    index: Array,
    src: Operand,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """self with elements combined at an index: sums by any index, others by a public one."""
    if reduce in ("sum", "add") and include_self:
        return scatter_add(n, self, dim, index, src)
    places = _public(f"scatter_reduce with reduce={reduce!r}", index)
    return _like(n, scatter_groups(n, self, dim, places, src, reduce, include_self), self)


def _replaced(
    n: Numbers,
    self: Operand,
    source: Operand,
    picked: Callable[[Tensor], Tensor],
    put: Callable[[Tensor, Tensor], Tensor],
    fitted: Callable[[Tensor, Tensor], Tensor] = lambda new, places: new,
) -> Value:
    """put(self, source) at public places; of several elements for one place the last counts.

    picked: selects from a tensor like `self` the elements that are replaced. fitted: expands the
    source to one element for each of these. torch does not define which of several elements for
    one place counts, and a GPU may choose differently for each part of a share: so all of them get
    the last one's value. torch checks the shapes.
    """
    if _single(source):
        return _placed(n, self, source, put)
    shape = self.shape  # type: ignore[union-attr]
    places = picked(torch.arange(shape.numel(), device=n.device).view(shape))
    flat = places.flatten()
    if n.device.type == "cpu":  # a GPU would have to be waited for
        taken = torch.zeros(shape.numel(), dtype=torch.bool).scatter_(0, flat, True)
        if int(taken.count_nonzero()) == flat.numel():
            return _placed(n, self, source, put)
    last = torch.empty(shape.numel(), dtype=torch.int64, device=n.device)
    numbers = torch.arange(flat.numel(), device=n.device)
    last = last.scatter_reduce_(0, flat, numbers, "amax", include_self=False)[flat]

    def change(old: Tensor, new: Tensor) -> Tensor:
        new = fitted(new, places)
        if new.numel() == flat.numel() > 1:
            new = new.reshape(-1)[last].view(new.shape)
        return put(old, new)

    return _placed(n, self, source, change)


def _corner(new: Tensor, places: Tensor) -> Tensor:
    """The part of a source that scatter reads: the source may be larger than the index."""
    if new.dim() != places.dim():
        return new
    return new[tuple(slice(size) for size in places.shape)]


def _placed(
    n: Numbers,
    self: Operand,
    source: Operand,
    change: Callable[[Tensor, Tensor], Tensor],
    *,
    adds: bool = False,
) -> Value:
    made = n.combined([self, source], lambda parts: change(*parts), adds=adds)
    return _like(n, made, self)


def _public(name: str, index: Array) -> Tensor:
    if isinstance(index, Value):
        raise UnsupportedOp(
            f"{name} with a secret index", remedy="torch.scatter and scatter_add take one"
        )
    return index


@implements(aten.index_add.default)
def index_add(
    n: Numbers, self: Operand, dim: int, index: Array, source: Operand, *, alpha: float = 1
) -> Value:
    """self with rows added at an index, public or secret."""
    scaled = source if alpha == 1 else n.mul(n.operand(source), alpha)
    if isinstance(index, Value):
        return _added(n, self, dim % len(self.shape), index, scaled)  # type: ignore[union-attr]
    places = index
    return _placed(
        n, self, scaled, lambda a, b: a.index_add(dim, places.to(a.device), b), adds=True
    )


@implements(aten.index_copy.default)
def index_copy(n: Numbers, self: Operand, dim: int, index: Array, source: Operand) -> Value:
    """self with rows replaced at a public index. Local."""
    places = _public("index_copy", index)
    where = places.to(n.device)
    return _replaced(
        n,
        self,
        source,
        lambda ids: ids.index_select(dim, where),
        lambda a, b: a.index_copy(dim, where, b),
    )


@implements(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(n: Numbers, self: Operand, dim: int, index: Array, value: Operand) -> Value:
    """self with rows filled with one number at a public index."""
    places = _public("index_fill", index)
    mask = torch.zeros(self.shape, dtype=torch.bool).index_fill(dim, places, 1)  # type: ignore[union-attr]
    return _like(n, n.where(mask, value, self), self)


@implements(aten.put.default)
def put(
    n: Numbers, self: Operand, index: Array, source: Operand, accumulate: bool = False
) -> Value:
    """self with elements of the flattened tensor replaced, or added, at a public index."""
    places = _public("put", index)
    if not accumulate:
        where = places.to(n.device)
        return _replaced(n, self, source, lambda ids: ids.take(where), lambda a, b: a.put(where, b))
    return _placed(
        n, self, source, lambda a, b: a.put(places.to(a.device), b, accumulate=True), adds=True
    )


@implements(aten.masked_scatter_backward.default)
def masked_scatter_backward(
    n: Numbers, grad_output: Operand, mask: Array, sizes: Sequence[int]
) -> Operand:
    """The gradient by the source of `masked_scatter`. Local."""
    chosen = _public("masked_scatter", mask)
    return mapped(
        grad_output, lambda part: aten.masked_scatter_backward(part, chosen.to(part.device), sizes)
    )


@implements(aten.masked_select.default)
def masked_select(n: Numbers, self: Any, mask: Any) -> Any:
    """The elements that a public mask selects. A secret mask would reveal how many they are."""
    if not isinstance(mask, Tensor):
        raise UnsupportedOp(
            "masked_select by a secret mask",
            limit="the shape of the result would reveal values",
            remedy="keep the shape, with torch.where(mask, x, 0)",
        )
    shape = torch.broadcast_shapes(self.shape, mask.shape)
    chosen = mask.expand(shape)
    return self.map(lambda part: part.expand(shape)[chosen])


@implements(aten.masked_scatter.default)
def masked_scatter(n: Numbers, self: Any, mask: Any, source: Any) -> Any:
    """self with the elements that a public mask selects overwritten, in order."""
    if not isinstance(mask, Tensor):
        raise UnsupportedOp(
            "masked_scatter by a secret mask",
            limit="which element goes where would depend on values",
            remedy="choose with torch.where(mask, a, b)",
        )
    made = n.combined(
        [self, source], lambda parts: parts[0].masked_scatter(mask.to(n.device), parts[1])
    )
    return n.convert(made, self.dtype)
