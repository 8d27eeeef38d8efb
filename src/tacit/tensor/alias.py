"""Tensors that alias each other.

NOTE [views]: aliases share a cell, which holds a value. A view shows a part of it, selected by its
function `take`. A write to one alias gives the cell a new value, and the other aliases take their
parts of it when they are next read. Values never change: what autograd saved stays as it was.

NOTE [layout]: a secret tensor reports the strides and the offset that a plain tensor would have if
every tensor that is not a view were contiguous. So torch decides as usual whether a reshape is a
view or a copy. The parts of a share may have other strides in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..fixedpoint import Numbers, Value

Take = Callable[[Value], Value]
Layout = tuple[tuple[int, ...], int]


class Cell:
    """A value that can be replaced."""

    __slots__ = ("value", "version")

    def __init__(self, value: Value) -> None:
        self.value, self.version = value, 0

    def set(self, value: Value) -> None:
        """Replaces the value; all aliases see the new one when they are next read."""
        self.value = value
        self.version += 1

    def replace(self, numbers: Numbers, take: Take, value: Value) -> None:
        """Replaces the part of the value that `take` selects."""
        self.set(numbers.replace(self.value, take, value))


def layouts(
    func: OpOverload, base: Tensor, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Layout, ...]:
    """Returns the strides and offsets of the views that an operation with these arguments makes."""
    fixed = tuple(tuple(x) if type(x) is list else x for x in args)
    return _layouts(func, base.shape, base.stride(), fixed, tuple(kwargs.items()))


@lru_cache(maxsize=4096)
def _layouts(
    func: OpOverload,
    shape: Sequence[int],
    stride: Sequence[int],
    args: tuple[Any, ...],
    kwargs: tuple[tuple[str, Any], ...],
) -> tuple[Layout, ...]:
    """Runs the operation on a meta tensor, which has no elements."""
    shown = func(torch.empty_strided(shape, stride, device="meta"), *args, **dict(kwargs))
    views = shown if isinstance(shown, list | tuple) else [shown]
    return tuple((view.stride(), int(view.storage_offset())) for view in views)


def chained(outer: Take | None, take: Take) -> Take:
    """Returns the composition: `take` of the part that `outer` selects."""
    return take if outer is None else lambda value: take(outer(value))
