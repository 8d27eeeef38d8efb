"""Inverse trigonometric and hyperbolic functions, and what asks for a sign."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.atan.default)
def atan(n: Numbers, self: Value) -> Value:
    return n.atan(self)


@implements(aten.atan2.default)
def atan2(n: Numbers, self: Operand, other: Operand) -> Value:
    return n.atan2(self, other)


@implements(aten.asin.default)
def asin(n: Numbers, self: Value) -> Value:
    return n.asin(self)


@implements(aten.acos.default)
def acos(n: Numbers, self: Value) -> Value:
    return n.acos(self)


@implements(aten.asinh.default)
def asinh(n: Numbers, self: Value) -> Value:
    return n.asinh(self)


@implements(aten.acosh.default)
def acosh(n: Numbers, self: Value) -> Value:
    return n.acosh(self)


@implements(aten.signbit.default)
def signbit(n: Numbers, self: Value) -> Value:
    """[x < 0]: fixed point has no negative zero."""
    return n.less(self, 0)


@implements(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(n: Numbers, self: Operand, other: Operand) -> Value:
    size = n.settled(n.absolute(n.operand(self)))
    if isinstance(other, Value):
        return n.where(n.less(other, 0), n.neg(size), size)
    return n.mul(size, 1 - 2 * torch.as_tensor(other).signbit().to(torch.int64))


@implements(aten.heaviside.default)
def heaviside(n: Numbers, self: Operand, values: Operand) -> Value:
    positive = n.convert(n.less(0, self), n.result_dtype(self, values))
    return n.where(n.equal(self, 0), values, positive)
