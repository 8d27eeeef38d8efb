"""Powers, sines, signs; and what is made of a few functions."""

from __future__ import annotations

from math import log as ln

import torch

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ....ring import deterministic
from ...table import implements

aten = torch.ops.aten


@implements(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow(n: Numbers, self: Operand, exponent: Operand) -> Value:
    return n.pow(self, exponent)


@implements(aten.exp2.default)
def exp2(n: Numbers, self: Value) -> Value:
    return n.pow(2.0, self)


@implements(aten.sign.default, aten.sgn.default)
def sign(n: Numbers, self: Value) -> Value:
    return n.sign(self)


@implements(aten.sin.default)
def sin(n: Numbers, self: Value) -> Value:
    return n.sin(self)


@implements(aten.cos.default)
def cos(n: Numbers, self: Value) -> Value:
    return n.cos(self)


@implements(aten.tan.default)
def tan(n: Numbers, self: Value) -> Value:
    return n.tan(self)


@implements(aten.sinh.default)
def sinh(n: Numbers, self: Value) -> Value:
    up, down = _both_ways(n, n.exp, self)
    return n.div(n.sub(up, down), 2)


@implements(aten.cosh.default)
def cosh(n: Numbers, self: Value) -> Value:
    up, down = _both_ways(n, n.exp, self)
    return n.div(n.add(up, down), 2)


@implements(aten.atanh.default)
def atanh(n: Numbers, self: Value) -> Value:
    up, down = _both_ways(n, lambda x: n.log(n.add(x, 1.0)), self)
    return n.div(n.sub(up, down), 2)


def _both_ways(n: Numbers, function: object, x: Value) -> tuple[Value, Value]:
    """The function at x and at -x, in the rounds of one."""
    x = n.settled(n.convert(x, torch.get_default_dtype()) if not x.is_real else x)
    both = n.joined([x, n.neg(x)], torch.stack)
    made = function(both)  # type: ignore[operator]
    return made.map(lambda part: part[0]), made.map(lambda part: part[1])


@implements(aten.logit.default)
def logit(n: Numbers, self: Value, eps: float | None = None) -> Value:
    """ln x - ln(1 - x)."""
    x = n.clamp(self, eps, 1 - eps) if eps is not None else n.settled(self)
    both = n.log(n.joined([x, n.sub(1.0, x)], torch.stack))
    return n.sub(both.map(lambda part: part[0]), both.map(lambda part: part[1]))


@implements(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)
def xlogy(n: Numbers, self: Operand, other: Operand) -> Value:
    """x ln y: the logarithm of 0 is finite here, so that 0 ln 0 is 0."""
    if isinstance(other, Value):
        return n.mul(self, n.log(other))
    plain = torch.as_tensor(other).double()
    return n.mul(self, deterministic.logarithm(plain.clamp_min(2.0**-n.fraction_bits)))


@implements(
    aten.special_xlog1py.default,
    aten.special_xlog1py.self_scalar,
    aten.special_xlog1py.other_scalar,
)
def special_xlog1py(n: Numbers, self: Operand, other: Operand) -> Value:
    return xlogy(n, self, n.add(other, 1.0) if isinstance(other, Value) else other + 1.0)


@implements(aten.special_entr.default)
def special_entr(n: Numbers, self: Value) -> Value:
    """-x ln x, for x >= 0."""
    return n.neg(n.mul(self, n.log(self)))


@implements(aten.logaddexp.default)
def logaddexp(n: Numbers, self: Operand, other: Operand) -> Value:
    """b + softplus(a - b)."""
    return n.add(n.softplus(n.sub(self, other)), other)


@implements(aten.logaddexp2.default)
def logaddexp2(n: Numbers, self: Operand, other: Operand) -> Value:
    difference = n.mul(n.sub(self, other), ln(2))
    return n.add(n.mul(n.softplus(difference), 1 / ln(2)), other)


@implements(aten.hypot.default)
def hypot(n: Numbers, self: Operand, other: Operand) -> Value:
    """The larger times sqrt(1 + t^2), t being the smaller over it: no square leaves the range."""
    a, b = (n.settled(n.absolute(n.operand(x))) for x in (self, other))
    larger = n.settled(n.maximum(a, b))
    ratio = n.div(n.sub(n.add(a, b), larger), larger, positive=True)
    return n.mul(larger, n.sqrt(n.add(n.square(ratio), 1.0)))


@implements(aten.addcdiv.default)
def addcdiv(
    n: Numbers, self: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1
) -> Value:
    if isinstance(tensor1, Value) or isinstance(tensor2, Value):
        quotient: Operand = n.div(tensor1, tensor2)
    else:
        quotient = torch.as_tensor(tensor1) / torch.as_tensor(tensor2)
    return n.add(self, quotient if value == 1 else _scaled(n, quotient, value))


def _scaled(n: Numbers, x: Operand, factor: float) -> Operand:
    return n.mul(x, factor) if isinstance(x, Value) else x * factor


@implements(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(n: Numbers, self: Operand, end: Operand, weight: Operand) -> Value:
    """self + weight (end - self)."""
    if isinstance(self, Value) or isinstance(end, Value):
        difference: Operand = n.sub(end, self)
    else:
        difference = torch.as_tensor(end) - torch.as_tensor(self)
    if isinstance(difference, Value) or isinstance(weight, Value):
        return n.add(self, n.mul(difference, weight))
    raise UnsupportedOp("lerp of (public, public, public): nothing is secret in it")


@implements(aten.abs.default)
def abs(n: Numbers, self: Value) -> Value:
    return self if self.is_bit else n.absolute(self)


@implements(aten.logit_backward.default)
def logit_backward(
    n: Numbers, grad_output: Operand, self: Value, eps: float | None = None
) -> Value:
    """g / (x (1 - x)), and nothing where x was clamped."""
    x = n.settled(self)
    grad = n.div(grad_output, n.sub(x, n.square(x)))
    return grad if eps is None else n.mul(n.between(x, eps, 1 - eps), grad)
