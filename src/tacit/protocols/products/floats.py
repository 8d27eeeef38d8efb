"""The bilinear operations of the ring, on floating-point tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .bilinear import Bilinear, Conv, ConvGradInput, ConvGradWeight, Einsum, MatMul, Mul

GRADIENTS: Any = torch.nn.grad  # type: ignore[attr-defined]


def in_floats(op: Bilinear, a: Tensor, b: Tensor) -> Tensor:
    """Returns op(a, b) as torch computes it, with the rounding of its dtype."""
    if isinstance(op, Mul):
        return a * b
    if isinstance(op, MatMul):
        return a @ b
    if isinstance(op, Einsum):
        return torch.einsum(op.equation, a, b)
    assert isinstance(op, Conv | ConvGradInput | ConvGradWeight)
    window, dims = op.window, len(op.window.stride)
    settings = (window.stride, window.padding, window.dilation, window.groups)
    if isinstance(op, Conv):
        return getattr(torch, f"conv{dims}d")(a, b, None, *settings)
    if isinstance(op, ConvGradInput):
        return getattr(GRADIENTS, f"conv{dims}d_input")(op.input_shape, a, b, *settings)
    return getattr(GRADIENTS, f"conv{dims}d_weight")(a, op.weight_shape, b, *settings)
