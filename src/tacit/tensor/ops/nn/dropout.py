"""Dropout as one operation. Its mask is public, and all parties draw it alike."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.native_dropout.default)
def native_dropout(
    n: Numbers, input: Value, p: float, train: bool | None
) -> tuple[Value, torch.Tensor]:
    """Local."""
    if train is False or p == 0:
        return input, torch.ones(input.shape, dtype=torch.bool)
    if p == 1:
        return n.mul(input, 0), torch.zeros(input.shape, dtype=torch.bool)
    mask = n.uniform(input.shape) >= p
    return n.mul(input, mask.to(torch.float64) / (1 - p)), mask


@implements(aten.native_dropout_backward.default)
def native_dropout_backward(
    n: Numbers, grad_output: Operand, mask: torch.Tensor, scale: float
) -> Value:
    return n.mul(grad_output, mask.to(torch.float64) * scale)
