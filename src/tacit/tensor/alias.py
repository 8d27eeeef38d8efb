"""What tensors that alias each other have in common.

NOTE [views]: aliases share a cell. A view shows what its `take` takes of the cell's value. Writing
to an alias gives the cell a new value, of which the others take their part when they are next read.
Values themselves never change, so whoever kept one (autograd, a gradient's helper) keeps what it
was.

NOTE [layout]: a tensor has the strides and the offset that torch's would have if every value that
is no view were dense, so torch decides as it does for plain tensors whether a reshape can be a view
or has to copy. The parts of a value lie in memory as they like; only what is written to is dense.
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
        self.value = value
        self.version += 1

    def replace(self, numbers: Numbers, take: Take, value: Value) -> None:
        """Replaces the part of the value that `take` takes."""
        self.set(numbers.replace(self.value, take, value))


def layouts(
    func: OpOverload, base: Tensor, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Layout, ...]:
    """The strides and offsets of the views that an operation with these arguments takes."""
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
    """The operation itself is asked, on a tensor without elements."""
    shown = func(torch.empty_strided(shape, stride, device="meta"), *args, **dict(kwargs))
    views = shown if isinstance(shown, list | tuple) else [shown]
    return tuple((view.stride(), int(view.storage_offset())) for view in views)


def chained(outer: Take | None, take: Take) -> Take:
    """What `take` takes of what `outer` takes."""
    return take if outer is None else lambda value: take(outer(value))
