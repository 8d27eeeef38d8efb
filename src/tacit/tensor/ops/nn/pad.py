"""Padding and unfolding. torch itself says, on numbered elements, where each one comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.constant_pad_nd.default)
def constant_pad_nd(n: Numbers, self: Value, pad: Sequence[int], value: float = 0) -> Value:
    """self with a border of a public number. Local."""
    padded = self.map(lambda part: aten.constant_pad_nd(part, pad))
    if value == 0:
        return padded
    border = aten.constant_pad_nd(torch.zeros(self.shape, dtype=self.dtype), pad, value)
    return n.add(padded, border)


def _sources(move: Callable[[Tensor], Tensor], shape: Sequence[int]) -> Tensor:
    """For each element of move(x), x of shape (1, *shape): 1 + its index in x, or 0 for a zero."""
    places = torch.arange(1.0, 1 + prod(shape), dtype=torch.float64).view(1, *shape)
    return move(places)[0].to(torch.int64)


def moved(x: Value, move: Callable[[Tensor], Tensor], dims: int) -> Value:
    """move(x) of the last `dims` dimensions, where `move` selects elements and adds zeros."""
    sources = _sources(move, x.shape[-dims:])
    return x.map(lambda part: _taken(part, sources, dims))


def _taken(part: Tensor, sources: Tensor, dims: int) -> Tensor:
    flat = torch.nn.functional.pad(part.flatten(-dims), (1, 0))
    return flat[..., sources]


def moved_back(x: Value, move: Callable[[Tensor], Tensor], shape: Sequence[int]) -> Value:
    """The gradient of `moved` by its input, whose last dimensions are `shape`: sums. Local."""
    sources = _sources(move, shape)
    times = int(sources.flatten().bincount()[1:].max()) if sources.numel() else 1
    dims, count = sources.dim(), prod(shape)

    def back(part: Tensor) -> Tensor:
        flat = part.flatten(-dims)
        made = flat.new_zeros(*flat.shape[:-1], 1 + count)
        made.index_add_(-1, sources.flatten().to(part.device), flat)
        return made[..., 1:].unflatten(-1, tuple(shape))

    return Value(x.arith.map(back, limit=x.arith.limit * times), x.dtype)


def _register_padding(overload: Any, backward: Any, dims: int) -> None:
    def pad(n: Numbers, self: Value, padding: Sequence[int]) -> Value:
        return moved(self, lambda places: overload(places, padding), dims)

    def pad_backward(n: Numbers, grad_output: Operand, self: Any, padding: Sequence[int]) -> Value:
        shape, grad = self.shape[-dims:], n.operand(grad_output)
        return moved_back(grad, lambda places: overload(places, padding), shape)

    pad.__name__ = overload._schema.name.removeprefix("aten::")
    pad_backward.__name__ = backward._schema.name.removeprefix("aten::")
    implements(overload)(pad)
    implements(backward)(pad_backward)


for kind in ("reflection", "replication"):
    for count in (1, 2, 3):
        name = f"{kind}_pad{count}d"
        _register_padding(
            getattr(aten, name).default, getattr(aten, f"{name}_backward").default, count
        )


@implements(aten.im2col.default)
def im2col(
    n: Numbers,
    self: Value,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """The windows of an image as columns. Local."""

    def move(places: Tensor) -> Tensor:
        return aten.im2col(places, kernel_size, dilation, padding, stride)

    return moved(self, move, 3)


@implements(aten.col2im.default)
def col2im(
    n: Numbers,
    self: Value,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """The sums of columns at their places in an image. Local."""

    def move(places: Tensor) -> Tensor:
        return aten.im2col(places, kernel_size, dilation, padding, stride)

    channels = self.shape[-2] // prod(kernel_size)
    return moved_back(self, move, (channels, *output_size))
