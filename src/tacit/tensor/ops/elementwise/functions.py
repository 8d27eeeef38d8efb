"""Functions of one number, quotients and powers, with their gradients."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.exp.default)
def exp(n: Numbers, self: Value) -> Value:
    return n.exp(self)


@implements(aten.expm1.default)
def expm1(n: Numbers, self: Value) -> Value:
    return n.sub(n.exp(self), 1.0)


@implements(aten.log.default)
def log(n: Numbers, self: Value) -> Value:
    return n.log(self)


@implements(aten.log2.default)
def log2(n: Numbers, self: Value) -> Value:
    return n.log(self, "2")


@implements(aten.log10.default)
def log10(n: Numbers, self: Value) -> Value:
    return n.log(self, "10")


@implements(aten.log1p.default)
def log1p(n: Numbers, self: Value) -> Value:
    return n.log(n.add(self, 1.0))


@implements(aten.sqrt.default)
def sqrt(n: Numbers, self: Value) -> Value:
    return n.sqrt(self)


@implements(aten.rsqrt.default)
def rsqrt(n: Numbers, self: Value) -> Value:
    return n.rsqrt(self)


@implements(aten.reciprocal.default)
def reciprocal(n: Numbers, self: Value) -> Value:
    return n.reciprocal(self)


@implements(aten.div.Tensor, aten.div.Scalar)
def div(n: Numbers, self: Operand, other: Operand) -> Value:
    return n.div(self, other)


@implements(aten.sigmoid.default)
def sigmoid(n: Numbers, self: Value) -> Value:
    return n.sigmoid(self)


@implements(aten.sigmoid_backward.default)
def sigmoid_backward(n: Numbers, grad_output: Operand, output: Operand) -> Value:
    slope = n.sub(output, n.square(output)) if isinstance(output, Value) else output * (1 - output)
    return n.mul(grad_output, slope)


@implements(aten.tanh.default)
def tanh(n: Numbers, self: Value) -> Value:
    return n.tanh(self)


@implements(aten.tanh_backward.default)
def tanh_backward(n: Numbers, grad_output: Operand, output: Operand) -> Value:
    square = n.square(output) if isinstance(output, Value) else output * output
    return n.mul(grad_output, n.sub(1.0, square) if isinstance(square, Value) else 1 - square)


@implements(aten.erf.default)
def erf(n: Numbers, self: Value) -> Value:
    return n.erf(self)


@implements(aten.erfc.default)
def erfc(n: Numbers, self: Value) -> Value:
    return n.sub(1.0, n.erf(self))
