"""Views and other changes of shape. All are local, and aliases where torch has aliases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


def _register_move(overload: Any, *, view: bool = False) -> None:
    """Registers an operation that moves the elements of one tensor: torch's own, on each part."""

    def take(n: Numbers, self: Value, *args: Any, **kwargs: Any) -> Any:
        return self.map(partial(overload, **_by_name(overload, args), **kwargs))

    take.__name__ = overload._schema.name.removeprefix("aten::")
    implements(overload, view=view)(take)


def _by_name(overload: Any, args: Sequence[Any]) -> dict[str, Any]:
    """Returns the arguments after the tensor by their names, so that a part can come first."""
    return {known.name: x for known, x in zip(overload._schema.arguments[1:], args, strict=False)}


def _register_splits(overload: Any, *, view: bool = True) -> None:
    """The same for an operation that gives a list."""

    def take(n: Numbers, self: Value, *args: Any, **kwargs: Any) -> list[Value]:
        return self.map_list(partial(overload, **_by_name(overload, args), **kwargs))

    take.__name__ = overload._schema.name.removeprefix("aten::")
    implements(overload, view=view)(take)


for each in (
    aten.select.int,
    aten.slice.Tensor,
    aten.t.default,
    aten.transpose.int,
    aten.permute.default,
    aten.expand.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.diagonal.default,
    aten.unfold.default,
):
    _register_move(each, view=True)

for each in (aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int):
    _register_splits(each)

for each in (aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default):
    _register_splits(each, view=False)

for each in (
    aten.flip.default,
    aten.roll.default,
    aten.rot90.default,
    aten.repeat.default,
    aten.tril.default,
    aten.triu.default,
    aten.diag_embed.default,
    aten.select_backward.default,
    aten.slice_backward.default,
    aten.diagonal_backward.default,
    aten.channel_shuffle.default,
):
    _register_move(each)


@implements(aten.unfold_backward.default)
def unfold_backward(
    n: Numbers, grad_in: Value, input_sizes: Sequence[int], dim: int, size: int, step: int
) -> Value:
    """The gradients of overlapping windows, added up at each element. Local."""
    share, times = grad_in.arith, -(-size // step)
    back = share.map(
        lambda part: aten.unfold_backward(part, input_sizes, dim, size, step),
        limit=share.limit * times,
    )
    return Value(back, grad_in.dtype)


@implements(aten.detach.default, aten.alias.default, view=True)
def alias(n: Numbers, self: Value) -> Value:
    """The same value; the tensor is an alias."""
    return self


@implements(aten.view.default, view=True)
def view(n: Numbers, self: Value, size: Sequence[int]) -> Value:
    """torch has checked, by the strides, that this can be a view: see NOTE [layout]."""
    return self.view(size)


@implements(aten._unsafe_view.default)
def unsafe_view(n: Numbers, self: Value, size: Sequence[int]) -> Value:
    """A copy of another shape. Local."""
    return self.map(lambda part: part.reshape(size))


@implements(aten._reshape_alias.default, view=True)
def reshape_alias(n: Numbers, self: Value, size: Sequence[int], stride: Sequence[int]) -> Value:
    """A view of another shape. Local."""
    return view(n, self, size)


@implements(aten.as_strided.default, view=True, of_storage=True)
def as_strided(
    n: Numbers, self: Value, size: Sequence[int], stride: Sequence[int], storage_offset: int
) -> Value:
    """A strided view of the whole tensor that the dispatcher passes as `self`."""

    def take(part: torch.Tensor) -> torch.Tensor:
        part = part.contiguous()
        return part.as_strided(size, stride, int(part.storage_offset()) + storage_offset)

    return self.map(take)


@implements(aten.cat.default)
def cat(n: Numbers, tensors: Sequence[Operand], dim: int = 0) -> Value:
    """The tensors one after the other. Local; empty ones count for nothing."""
    full = [x for x in tensors if tuple(x.shape) != (0,)]  # type: ignore[union-attr]
    return n.combined(full or tensors, lambda parts: torch.cat(parts, dim))


@implements(aten.stack.default)
def stack(n: Numbers, tensors: Sequence[Operand], dim: int = 0) -> Value:
    """The tensors along a new dimension. Local."""
    return n.combined(tensors, lambda parts: torch.stack(parts, dim))


@implements(aten.block_diag.default)
def block_diag(n: Numbers, tensors: Sequence[Operand]) -> Value:
    """A matrix with the tensors on its diagonal. Local."""
    return n.combined(tensors, lambda parts: torch.block_diag(*parts))


def _register_scatter(overload: Any) -> None:
    """Registers an operation that puts one tensor into a copy of another, at public places."""

    def scatter(n: Numbers, self: Operand, src: Operand, *args: Any, **kwargs: Any) -> Value:
        made = n.combined([self, src], lambda parts: overload(*parts, *args, **kwargs))
        return n.convert(made, self.dtype)  # type: ignore[union-attr]

    scatter.__name__ = overload._schema.name.removeprefix("aten::")
    implements(overload)(scatter)


for each in (
    aten.select_scatter.default,
    aten.slice_scatter.default,
    aten.diagonal_scatter.default,
    aten.as_strided_scatter.default,
):
    _register_scatter(each)


@implements(aten.trace.default)
def trace(n: Numbers, self: Value) -> Value:
    """The sum of the diagonal. Local."""
    return n.total(self.map(torch.diagonal))


@implements(aten.pixel_shuffle.default)
def pixel_shuffle(n: Numbers, self: Value, upscale_factor: int) -> Value:
    """Channels moved into pixels. Local."""
    *batch, channels, height, width = self.shape
    r, count = upscale_factor, len(batch)
    split = [*batch, channels // r**2, r, r, height, width]
    order = [*range(count), *(count + i for i in (0, 3, 1, 4, 2))]
    merged = [*batch, channels // r**2, height * r, width * r]
    return self.map(lambda part: part.reshape(split).permute(order).reshape(merged))


@implements(aten.pixel_unshuffle.default)
def pixel_unshuffle(n: Numbers, self: Value, downscale_factor: int) -> Value:
    """Pixels moved into channels. Local."""
    *batch, channels, height, width = self.shape
    r, count = downscale_factor, len(batch)
    split = [*batch, channels, height // r, r, width // r, r]
    order = [*range(count), *(count + i for i in (0, 2, 4, 1, 3))]
    merged = [*batch, channels * r**2, height // r, width // r]
    return self.map(lambda part: part.reshape(split).permute(order).reshape(merged))
