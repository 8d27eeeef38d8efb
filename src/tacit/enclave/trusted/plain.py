"""Products of floats inside the enclave, by torch's own kernels: the baseline without workers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError
from ...protocols.products.bilinear import Bilinear, Conv, ConvGradInput, ConvGradWeight, MatMul

GRADIENTS: Any = torch.nn.grad  # type: ignore[attr-defined]


def plain_product(op: Bilinear, a: Tensor, b: Tensor) -> Tensor:
    """Returns op(a, b) of floats, with the rounding of their dtype."""
    if isinstance(op, MatMul):
        return a @ b
    if not isinstance(op, Conv | ConvGradInput | ConvGradWeight):
        raise ConfigError(f"{type(op).__name__} has no product of floats")
    w, dims = op.window, len(op.window.stride)
    settings = (w.stride, w.padding, w.dilation, w.groups)
    if isinstance(op, Conv):
        return getattr(torch, f"conv{dims}d")(a, b, None, *settings)
    if isinstance(op, ConvGradInput):
        return getattr(GRADIENTS, f"conv{dims}d_input")(op.input_shape, a, b, *settings)
    return getattr(GRADIENTS, f"conv{dims}d_weight")(a, op.weight_shape, b, *settings)
