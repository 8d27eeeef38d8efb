"""Running maxima and sums of exponentials, and positions in sorted sequences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten

Column = tuple[Value, ...]


@implements(aten.cummax.default)
def cummax(n: Numbers, self: Value, dim: int) -> Column:
    """The running maximum and its index; of equals the last. log2 of the size steps."""
    return _running(n, self, dim, lambda before, after: n.logical_not(n.less(after, before)))


@implements(aten.cummin.default)
def cummin(n: Numbers, self: Value, dim: int) -> Column:
    """The running minimum and its index; of equals the last, as torch."""
    return _running(n, self, dim, lambda before, after: n.logical_not(n.less(before, after)))


def _running(n: Numbers, x: Value, dim: int, later: Callable[[Value, Value], Value]) -> Column:
    places = torch.arange(x.shape[dim] if x.shape else 1)
    shape = [-1 if d == dim % max(len(x.shape), 1) else 1 for d in range(len(x.shape))]
    index = n.public(places.view(shape).expand(x.shape).contiguous())

    def merged(before: Column, after: Column) -> Column:
        bit = later(before[0], after[0])
        return tuple(n.where(bit, b, a) for a, b in zip(before, after, strict=True))

    return _scan(n, (n.settled(x), index), dim, merged)


def _scan(
    n: Numbers, columns: Column, dim: int, merged: Callable[[Column, Column], Column]
) -> Column:
    """Merges of the first 1, 2, 3, ... elements along a dimension. log2 of its size steps."""
    size = columns[0].shape[dim] if columns[0].shape else 1
    step = 1
    while step < size:
        before = _part(columns, dim, 0, size - step)
        made = merged(before, _part(columns, dim, step, size - step))
        head = _part(columns, dim, 0, step)
        columns = tuple(_behind(n, a, b, dim) for a, b in zip(head, made, strict=True))
        step *= 2
    return columns


def _part(columns: Column, dim: int, start: int, size: int) -> Column:
    return tuple(x.map(lambda part: part.narrow(dim, start, size)) for x in columns)


def _behind(n: Numbers, head: Value, tail: Value, dim: int) -> Value:
    return n.settled(n.combined([head, tail], lambda parts: torch.cat(parts, dim)))


@implements(aten.logcumsumexp.default)
def logcumsumexp(n: Numbers, self: Value, dim: int) -> Value:
    """Running log-sum-exp, by ln(e^a + e^b) = b + softplus(a - b). log2 of the size steps."""

    def merged(before: Column, after: Column) -> Column:
        return (n.add(n.softplus(n.sub(before[0], after[0])), after[0]),)

    return _scan(n, (n.settled(self),), dim, merged)[0]


@implements(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(
    n: Numbers,
    self: Operand,
    boundaries: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Value:
    """The index of the bucket of each element: `searchsorted` with the operands exchanged."""
    return searchsorted(n, boundaries, self, out_int32=out_int32, right=right)


@implements(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(
    n: Numbers,
    sorted_sequence: Operand,
    self: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Value:
    """How many elements of the sequence are below, or not above if `right`: all pairs compared.

    Divided first, not once for each pair, so that equal elements are all below or none is.
    """
    sequence, x = (n.settled(n.operand(operand)) for operand in (sorted_sequence, self))
    if sorter is not None:
        if not isinstance(sorter, Tensor):
            raise UnsupportedOp(
                "searchsorted with a secret sorter", remedy="sort the sequence first"
            )
        sequence = sequence.map(lambda part: part.gather(-1, sorter.to(part.device)))
    if len(sequence.shape) > 1 and len(x.shape) == len(sequence.shape):
        sequence = sequence.map(lambda part: part.unsqueeze(-2))
    x = x.map(lambda part: part.unsqueeze(-1))
    after = right or side == "right"
    below = n.logical_not(n.less(x, sequence)) if after else n.less(sequence, x)
    return n.convert(n.total(below, [-1]), torch.int32 if out_int32 else torch.int64)
