"""Convolutions in one, two and three dimensions, and transposed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ....fixedpoint import Numbers, Operand, Value
from ....ring import Window
from ...table import implements

aten = torch.ops.aten


@implements(aten.convolution.default)
def convolution(
    n: Numbers,
    input: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Operand:
    """The convolution, transposed or not. 1 round; the bias is added before the division."""
    settings = (stride, padding, dilation, transposed, output_padding, groups)
    if isinstance(input, Tensor) and isinstance(weight, Tensor):
        product: Operand = aten.convolution(input, weight, None, *settings)
    else:
        window = _window(input, stride, padding, dilation, groups)
        if transposed:
            shape, more = _transposed_shape(input, weight, window, output_padding)
            product = n.conv_transpose(_padded(input, more), weight, window, shape)
        else:
            product = n.conv(input, weight, window)
    if bias is None:
        return product
    spatial = [1] * (len(_shape(input)) - 2)
    return n.add(product, _reshaped(bias, (-1, *spatial)))


@implements(aten.convolution_backward.default)
def convolution_backward(
    n: Numbers,
    grad_output: Operand,
    input: Operand,
    weight: Operand,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Operand | None, Operand | None, Operand | None]:
    """The gradients by input, weight and bias, in one round."""
    settings = (bias_sizes, stride, padding, dilation, transposed, output_padding, groups)
    public = [_all_public(grad_output, other) for other in (weight, input)]
    wanted = [output_mask[i] and not public[i] for i in (0, 1)]
    window = _window(input, stride, padding, dilation, groups)
    longer = input
    if transposed:
        longer = _padded(input, _transposed_shape(input, weight, window, output_padding)[1])
    grads: list[Operand | None] = [None, None]
    if any(wanted):
        grads = list(
            n.conv_grads(grad_output, longer, weight, window, transposed=transposed, wanted=wanted)
        )
        grads[0] = _cut(grads[0], _shape(input))
    if any(mask and known for mask, known in zip(output_mask, public, strict=False)):
        plain = [_plain_like(x) for x in (input, weight)]
        made = aten.convolution_backward(grad_output, *plain, *settings, [*public, False])
        grads = [made[i] if output_mask[i] and public[i] else grads[i] for i in (0, 1)]
    by_bias = _sum_over(n, grad_output) if output_mask[2] else None
    return grads[0], grads[1], by_bias


def _window(
    input: Operand,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Window:
    dims = len(_shape(input)) - 2
    first, second, third = (
        list(x) * dims if len(x) == 1 else list(x) for x in (stride, padding, dilation)
    )
    return Window.make(dims, first, second, third, groups)


def _transposed_shape(
    input: Operand, weight: Operand, window: Window, output_padding: Sequence[int]
) -> tuple[tuple[int, ...], list[int]]:
    """The shape of a transposed convolution, and how many zeros to append to its input.

    An output padding of a stride or more is the same as zeros behind the input.
    """
    sizes, kernel = _shape(input), _shape(weight)
    dims = len(sizes) - 2
    extra = list(output_padding) * dims if len(output_padding) == 1 else list(output_padding)
    spatial, more = [], []
    for i in range(dims):
        stride, reach = window.stride[i], window.dilation[i] * (kernel[i + 2] - 1)
        spatial.append((sizes[i + 2] - 1) * stride - 2 * window.padding[i] + reach + extra[i] + 1)
        more.append(extra[i] // stride)
    return (sizes[0], kernel[1] * window.groups, *spatial), more


def _sum_over(n: Numbers, grad: Operand) -> Operand:
    """The gradient of a bias: the sum over all dimensions but the channels."""
    dims = [dim for dim in range(len(_shape(grad))) if dim != 1]
    return n.sum(grad, dims) if isinstance(grad, Value) else grad.sum(dims)  # type: ignore[union-attr]


def _padded(x: Operand, more: Sequence[int]) -> Operand:
    """x with this many zeros appended to each spatial dimension."""
    widths = [width for one in reversed(more) for width in (0, one)]
    if not any(more):
        return x
    return x.map(lambda part: F.pad(part, widths)) if isinstance(x, Value) else F.pad(x, widths)  # type: ignore[arg-type]


def _cut(x: Any, shape: Sequence[int]) -> Any:
    """x cut to a smaller shape, from the first elements on."""
    places = tuple(slice(size) for size in shape)
    return x if x is None or x.shape == tuple(shape) else x.map(lambda part: part[places])


def _all_public(*operands: Operand) -> bool:
    return not any(isinstance(x, Value) for x in operands)


def _plain_like(x: Operand) -> Tensor:
    """x, or zeros of its shape, where only the shape matters."""
    return torch.zeros(x.shape, dtype=x.dtype) if isinstance(x, Value) else x  # type: ignore[return-value]


def _shape(x: Operand) -> torch.Size:
    return x.shape  # type: ignore[union-attr]


def _reshaped(x: Operand, shape: Sequence[int]) -> Operand:
    if isinstance(x, Value):
        return x.map(lambda part: part.reshape(shape))
    return torch.as_tensor(x).reshape(tuple(shape))
