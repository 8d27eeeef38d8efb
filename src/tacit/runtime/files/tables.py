"""Columns of numbers: as a dict by name, or chosen ones as one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from .contents import Contents, Options, Refusal, one


def chosen(names: Sequence[str] | None, count: int, options: Options) -> list[int]:
    """The places of the columns that are asked for; all if none is named."""
    if names is not None and len(set(names)) < len(names):
        raise Refusal("several of its columns have the same name")
    if options.columns is None:
        return list(range(count))
    return [_place(column, names, count) for column in options.columns]


def _place(column: str | int, names: Sequence[str] | None, count: int) -> int:
    if isinstance(column, int):
        if column not in range(count):
            raise Refusal(f"columns={column}: it has {count} columns, from 0 on")
        return column
    if names is None:
        raise Refusal("it has no names of columns: columns= takes their numbers, from 0 on")
    if column not in names:
        raise Refusal(f"columns={column!r}: it has no column of that name")
    return names.index(column)


def table(names: Sequence[str] | None, tensors: Sequence[Tensor], options: Options) -> Contents:
    """A dict of columns; a matrix of them if they were asked for, or have no names."""
    if names is not None and options.columns is None:
        return Contents("dict", dict(zip(names, tensors, strict=True)))
    dtype = reduce(torch.promote_types, [tensor.dtype for tensor in tensors])
    return one(torch.stack([tensor.to(dtype) for tensor in tensors], dim=1))
