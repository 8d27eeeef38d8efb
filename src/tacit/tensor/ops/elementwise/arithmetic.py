"""Sums, products and simple functions, element by element."""

from __future__ import annotations

from typing import Any

import torch

from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.add.Tensor, aten.add.Scalar)
def add(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value:
    return n.add(self, other if alpha == 1 else mul(n, other, alpha))


@implements(aten.sub.Tensor, aten.sub.Scalar)
def sub(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value:
    return n.sub(self, other if alpha == 1 else mul(n, other, alpha))


@implements(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(n: Numbers, self: Operand, other: Operand, alpha: float = 1) -> Value:
    return n.sub(other, self if alpha == 1 else mul(n, self, alpha))


@implements(aten.mul.Tensor, aten.mul.Scalar)
def mul(n: Numbers, self: Operand, other: Operand) -> Any:
    if isinstance(self, Value) or isinstance(other, Value):
        return n.mul(self, other)
    return self * other


@implements(aten.neg.default)
def neg(n: Numbers, self: Value) -> Value:
    return n.neg(self)


@implements(aten.relu.default)
def relu(n: Numbers, self: Value) -> Value:
    value, bit = n.relu(self)
    return value.keep(positive=bit)


@implements(aten.threshold_backward.default)
def threshold_backward(n: Numbers, grad_output: Operand, self: Operand, threshold: float) -> Value:
    bit = self.kept.get("positive") if isinstance(self, Value) and threshold == 0 else None
    if bit is None:
        bit = n.less(threshold, self)
    return n.mul(bit, grad_output)
