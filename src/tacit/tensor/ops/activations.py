"""Activation functions, with their gradients."""

from __future__ import annotations

import torch

from ...fixedpoint import Numbers, Operand, Value
from ..table import implements

aten = torch.ops.aten


@implements(aten.gelu.default)
def gelu(n: Numbers, self: Value, *, approximate: str = "none") -> Value:
    return n.gelu_tanh(self) if approximate == "tanh" else n.gelu(self)


@implements(aten.gelu_backward.default)
def gelu_backward(
    n: Numbers, grad_output: Operand, self: Value, *, approximate: str = "none"
) -> Value:
    slope = n.gelu_tanh_slope(self) if approximate == "tanh" else n.gelu_slope(self)
    return n.mul(grad_output, slope)


@implements(aten.silu.default)
def silu(n: Numbers, self: Value) -> Value:
    return n.silu(self)


@implements(aten.silu_backward.default)
def silu_backward(n: Numbers, grad_output: Operand, self: Value) -> Value:
    return n.mul(grad_output, n.silu_slope(self))


@implements(aten.mish.default)
def mish(n: Numbers, self: Value) -> Value:
    return n.mish(self)


@implements(aten.mish_backward.default)
def mish_backward(n: Numbers, grad_output: Operand, self: Value) -> Value:
    return n.mul(grad_output, n.mish_slope(self))


@implements(aten.softplus.default)
def softplus(n: Numbers, self: Value, beta: float = 1, threshold: float = 20) -> Value:
    """softplus(beta x) / beta; beyond the threshold, the difference from x is out of sight."""
    value = n.softplus(self if beta == 1 else n.mul(self, beta))
    return value if beta == 1 else n.div(value, beta)


@implements(aten.softplus_backward.default)
def softplus_backward(
    n: Numbers, grad_output: Operand, self: Value, beta: float, threshold: float
) -> Value:
    return n.mul(grad_output, n.sigmoid(self if beta == 1 else n.mul(self, beta)))


@implements(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(n: Numbers, self: Value) -> tuple[Value, torch.Tensor]:
    return n.logsigmoid(self), torch.empty(0)


@implements(aten.log_sigmoid_backward.default)
def log_sigmoid_backward(n: Numbers, grad_output: Operand, self: Value, buffer: object) -> Value:
    return n.mul(grad_output, n.sigmoid(n.neg(self)))
