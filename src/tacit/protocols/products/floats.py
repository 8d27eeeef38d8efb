"""The bilinear operations of the ring, on floating-point tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ring import Window
from .bilinear import Bilinear, Conv, ConvGradInput, ConvGradWeight, Einsum, MatMul, Mul

aten = torch.ops.aten


def in_floats(op: Bilinear, a: Tensor, b: Tensor) -> Tensor:
    """Returns op(a, b) as torch computes it."""
    if isinstance(op, Mul):
        return a * b
    if isinstance(op, MatMul):
        return a @ b
    if isinstance(op, Einsum):
        return torch.einsum(op.equation, a, b)
    if isinstance(op, Conv):
        return aten.convolution(a, b, None, *_settings(op.window))
    if isinstance(op, ConvGradInput):
        x = b.new_empty(()).expand(op.input_shape)  # only its shape matters
        return _gradients(op.window, b, x, a, [True, False, False])[0]
    if isinstance(op, ConvGradWeight):
        weight = b.new_empty(()).expand(op.weight_shape)
        return _gradients(op.window, b, a, weight, [False, True, False])[1]
    raise TypeError(f"{type(op).__name__} is not defined on floating-point tensors")


def _gradients(
    window: Window, grad: Tensor, x: Tensor, weight: Tensor, wanted: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    made: tuple[Tensor, Tensor, Tensor] = aten.convolution_backward(
        grad, x, weight, None, *_settings(window), wanted
    )
    return made


def _settings(window: Window) -> tuple[object, ...]:
    """The arguments of torch's convolution after the bias, for one that is not transposed."""
    zeros = [0] * len(window.stride)
    return window.stride, window.padding, window.dilation, False, zeros, window.groups
