"""Exact convolutions in one, two and three dimensions, and their gradients.

Arguments are those of `torch.nn.functional.conv2d` and `torch.nn.grad`, without bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring import ring_of
from ..ring.reference import arithmetic as reference
from .backend import native_for
from .matmul import METHODS, matmul

Sizes = int | Sequence[int]
# The unfolded input of a weight gradient is made at most this many elements at a time.
UNFOLDED = 1 << 22


@dataclass(frozen=True)
class Window:
    """How a kernel moves over its input, one entry for each of `dims` spatial dimensions."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    def make(
        cls, dims: int, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
    ) -> Window:
        window = cls(
            *(
                (value,) * dims if isinstance(value, int) else tuple(value)
                for value in (stride, padding, dilation)
            ),
            groups,
        )
        for name, low in (("stride", 1), ("padding", 0), ("dilation", 1)):
            value = getattr(window, name)
            if len(value) != dims or min(value) < low:
                raise ConfigError(f"{name}={value}: {dims} integers of at least {low} are needed")
        if groups < 1:
            raise ConfigError(f"groups={groups}: at least 1 is needed")
        return window

    def output_sizes(self, sizes: Sequence[int], kernel: Sequence[int]) -> list[int]:
        out = reference.output_sizes(sizes, kernel, self.stride, self.padding, self.dilation)
        if min(out) < 1:
            raise ConfigError(f"a kernel of {tuple(kernel)} does not fit an input of {tuple(sizes)}")
        return out

    def check(self, x: Sequence[int], weight: Sequence[int], dims: int) -> list[int]:
        """The shape of the output of a convolution of these shapes."""
        if len(x) != dims + 2 or len(weight) != dims + 2:
            raise ConfigError(
                f"conv{dims}d of input {tuple(x)} and weight {tuple(weight)}: "
                f"both need {dims + 2} dimensions"
            )
        if x[1] != weight[1] * self.groups or weight[0] % self.groups:
            raise ConfigError(
                f"conv{dims}d of input {tuple(x)} and weight {tuple(weight)} in "
                f"{self.groups} groups: channels do not divide"
            )
        return [x[0], weight[0], *self.output_sizes(x[2:], weight[2:])]

    def kwargs(self) -> dict[str, object]:
        return {
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
        }


def three(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """Spatial sizes as the three dimensions of the compiled kernels."""
    return (fill,) * (3 - len(values)) + tuple(values)


def call_native(
    name: str,
    source: Tensor,
    weight: Tensor,
    out: Tensor,
    window: Window,
    channels: tuple[int, int],
    method: str,
) -> Tensor:
    """Fills `out`; `channels` are those of the source and of the result in one group."""
    native = native_for(source, weight)
    assert native is not None
    source, weight = source.contiguous(), weight.contiguous()
    getattr(native, f"{name}{ring_of(source, weight).bits}")(
        source.data_ptr(),
        weight.data_ptr(),
        out.data_ptr(),
        (source.shape[0], window.groups, *channels),
        three(source.shape[2:], 1),
        three(out.shape[2:], 1),
        three(weight.shape[2:], 1),
        three(window.stride, 1),
        three(window.padding, 0),
        three(window.dilation, 1),
        METHODS[method],
    )
    return out


def conv(
    dims: int,
    x: Tensor,
    weight: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    *,
    method: str = "choose",
) -> Tensor:
    """The convolution of ring tensors, exact mod 2^k."""
    ring_of(x, weight)
    window = Window.make(dims, stride, padding, dilation, groups)
    shape = window.check(x.shape, weight.shape, dims)
    if native_for(x, weight) is None:
        return reference.conv(x, weight, **window.kwargs())
    out = x.new_zeros(shape)
    if not out.numel() or not weight.numel():
        return out
    channels = (weight.shape[1], weight.shape[0] // groups)
    return call_native("conv", x, weight, out, window, channels, method)


def conv_grad_input(
    dims: int,
    input_shape: Sequence[int],
    weight: Tensor,
    grad: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    *,
    method: str = "choose",
) -> Tensor:
    """The gradient of a convolution by its input (the transposed convolution), exact mod 2^k."""
    ring_of(grad, weight)
    window = Window.make(dims, stride, padding, dilation, groups)
    check_grad(window.check(input_shape, weight.shape, dims), grad)
    if native_for(grad, weight) is None:
        return reference.conv_grad_input(input_shape[2:], weight, grad, **window.kwargs())
    out = grad.new_zeros(tuple(input_shape))
    if not grad.numel() or not weight.numel():
        return out
    channels = (weight.shape[0] // groups, weight.shape[1])
    return call_native("conv_grad_input", grad, weight, out, window, channels, method)


def conv_grad_weight(
    dims: int,
    x: Tensor,
    weight_shape: Sequence[int],
    grad: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of a convolution by its weight, exact mod 2^k.

    A product of the output's gradient with the unfolded input, some images or lines at a time.
    """
    ring_of(x, grad)
    window = Window.make(dims, stride, padding, dilation, groups)
    check_grad(window.check(x.shape, weight_shape, dims), grad)
    if native_for(x, grad) is None:
        return reference.conv_grad_weight(x, weight_shape[2:], grad, **window.kwargs())
    kernel = tuple(weight_shape[2:])
    columns = unfold(reference.by_group(reference.pad(x, window.padding), groups), kernel, window)
    rows = reference.by_group(grad, groups)
    taps = weight_shape[1] * prod(kernel)
    out = x.new_zeros(groups, weight_shape[0] // groups, taps)
    lines = max(1, UNFOLDED // max(1, groups * taps * prod(grad.shape[3:])))
    images = max(1, lines // grad.shape[2])
    for n in range(0, grad.shape[0], images):
        for y in range(0, grad.shape[2], lines):
            part = (slice(n, n + images), ..., slice(y, y + lines), *(slice(None),) * (dims - 1))
            a = rows[part].movedim(0, 2).flatten(2)
            b = columns[part].movedim(0, -dims - 1).flatten(-dims - 1).flatten(1, -2)
            out += matmul(a, b.transpose(1, 2))
    return out.reshape(tuple(weight_shape))


def unfold(x: Tensor, kernel: Sequence[int], window: Window) -> Tensor:
    """A view of a padded input by (image, group, channel, *tap, *position)."""
    spatial = x.stride()[3:]
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[3:], kernel, window.stride, window.dilation, strict=True)
    ]
    taps = [a * d for a, d in zip(spatial, window.dilation, strict=True)]
    moves = [a * s for a, s in zip(spatial, window.stride, strict=True)]
    return x.as_strided((*x.shape[:3], *kernel, *sizes), (*x.stride()[:3], *taps, *moves))


def check_grad(expected: Sequence[int], grad: Tensor) -> None:
    if tuple(grad.shape) != tuple(expected):
        raise ConfigError(
            f"a gradient of shape {tuple(grad.shape)}: the output has {tuple(expected)}"
        )


conv1d = partial(conv, 1)
conv2d = partial(conv, 2)
conv3d = partial(conv, 3)
conv1d_grad_input = partial(conv_grad_input, 1)
conv2d_grad_input = partial(conv_grad_input, 2)
conv3d_grad_input = partial(conv_grad_input, 3)
conv1d_grad_weight = partial(conv_grad_weight, 1)
conv2d_grad_weight = partial(conv_grad_weight, 2)
conv3d_grad_weight = partial(conv_grad_weight, 3)
