"""Reductions of many elements into one place, by public indices."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


def scatter_groups(
    n: Numbers, self: Operand, dim: int, index: Tensor, src: Operand, reduce: str, own: bool
) -> Value:
    """`scatter_reduce` by a public index; `own`: the element at the place counts as well."""
    base, given = n.operand(self), n.operand(src)
    cells = torch.arange(base.shape.numel()).view(base.shape)
    if not base.shape:
        cells, index = cells.view(1), index.view(-1)
    places = tuple(slice(size) for size in index.shape)
    near = cells[tuple(slice(None) if d == dim % cells.dim() else p for d, p in enumerate(places))]
    target = near.gather(dim, index)
    if len(given.shape) == index.dim():
        given = given.map(lambda part: part[places])
    else:
        given = given.map(lambda part: part.expand(index.shape))
    return _reduced(n, base, target.flatten(), given, reduce, own)


@implements(aten.index_reduce.default)
def index_reduce(
    n: Numbers,
    self: Operand,
    dim: int,
    index: Operand,
    source: Operand,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """`reduce` is mean, prod, amin or amax."""
    if not isinstance(index, Tensor):
        raise UnsupportedOp(
            "index_reduce with a secret index", remedy="use torch.scatter_add, which takes one"
        )
    base, given = n.operand(self), n.operand(source)
    cells = torch.arange(base.shape.numel()).view(base.shape or (1,))
    target = cells.index_select(dim, index.flatten())
    return _reduced(n, base, target.flatten(), given, reduce, include_self)


def _reduced(
    n: Numbers, base: Value, target: Tensor, given: Value, reduce: str, own: bool
) -> Value:
    """`base` with the elements of `given` reduced into the elements that `target` numbers."""
    if not len(target):
        return base
    shape, neutral = base.shape, 1 if reduce in ("prod", "multiply") else 0
    filler = torch.full((1,), neutral, dtype=base.dtype)
    flat = [x.map(lambda part: part.reshape(-1)) for x in (base, given)]
    values = n.settled(n.combined([*flat, filler], torch.cat))
    touched, members = _members(target, base.shape.numel(), own)
    none = len(target) + base.shape.numel()
    if reduce in ("amax", "amin"):  # a member twice changes nothing
        chosen = torch.where(members < 0, members[:, :1], members)
    else:
        chosen = torch.where(members < 0, none, members)
    table = values.map(lambda part: part[chosen])
    made = REDUCTIONS[reduce](n, table)
    if reduce == "mean":
        made = n.mul(made, 1.0 / (members >= 0).sum(1))
    result = n.combined([flat[0], made], lambda parts: parts[0].index_put((touched,), parts[1]))
    return result.map(lambda part: part.reshape(shape))


def _members(target: Tensor, cells: int, own: bool) -> tuple[Tensor, Tensor]:
    """The elements of `base` that change, and for each the numbers of its members, then -1.

    Members are numbered with the elements of `base` first, then those of `given`.
    """
    touched, group = torch.unique(target, return_inverse=True)
    order = torch.argsort(group, stable=True)
    counts = torch.bincount(group)
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(target)) - starts[group[order]]
    members = torch.full((len(touched), int(counts.max())), -1)
    members[group[order], place] = order + cells
    return touched, torch.cat([touched.unsqueeze(1), members], 1) if own else members


REDUCTIONS: dict[str, Callable[[Numbers, Value], Value]] = {
    "sum": lambda n, x: n.total(x, [1]),
    "add": lambda n, x: n.total(x, [1]),
    "mean": lambda n, x: n.total(x, [1]),
    "prod": lambda n, x: n.prod(x, [1]),
    "multiply": lambda n, x: n.prod(x, [1]),
    "amax": lambda n, x: n.amax(x, [1]),
    "amin": lambda n, x: n.amin(x, [1]),
}
