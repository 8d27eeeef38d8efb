"""Exponentials, logarithms, roots, powers and sigmoids, with gradients where torch has own ones."""

from __future__ import annotations

from math import log as ln

import torch

from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.extended.mean_square import lazy_square
from ....ring import deterministic
from ...table import implements

aten = torch.ops.aten


@implements(aten.exp.default)
def exp(n: Numbers, self: Value) -> Value:
    """e^self; saturates at the range, and is 0 where it is below half a unit."""
    return n.exp(self)


@implements(aten.expm1.default)
def expm1(n: Numbers, self: Value) -> Value:
    """e^self - 1, with the error of e^self."""
    return n.sub(n.exp(self), 1.0)


@implements(aten.exp2.default)
def exp2(n: Numbers, self: Value) -> Value:
    """2^self."""
    return n.pow(2.0, self)


@implements(aten.log.default)
def log(n: Numbers, self: Value) -> Value:
    """The natural logarithm; finite at 0."""
    return n.log(self)


@implements(aten.log2.default)
def log2(n: Numbers, self: Value) -> Value:
    """The logarithm to base 2."""
    return n.log(self, "2")


@implements(aten.log10.default)
def log10(n: Numbers, self: Value) -> Value:
    """The logarithm to base 10."""
    return n.log(self, "10")


@implements(aten.log1p.default)
def log1p(n: Numbers, self: Value) -> Value:
    """ln(1 + self), with the error of the logarithm."""
    return n.log(n.add(self, 1.0))


@implements(aten.sqrt.default)
def sqrt(n: Numbers, self: Value) -> Value:
    """The square root; of what is known, a known one."""
    if self.known is not None and self.is_real:
        return n.public(self.known.double().clamp_min(0).sqrt().to(self.dtype))
    return n.sqrt(self)


@implements(aten.rsqrt.default)
def rsqrt(n: Numbers, self: Value) -> Value:
    """1 / sqrt(self), in the rounds of the root alone."""
    return n.rsqrt(self)


@implements(aten.ldexp.Tensor)
def ldexp(n: Numbers, self: Operand, other: Operand) -> Value:
    """self 2^other. A public 2^other is a factor like any; one of a secret saturates."""
    power = (
        n.pow(2.0, other) if isinstance(other, Value) else torch.pow(2.0, torch.as_tensor(other))
    )
    return n.mul(self, power)


@implements(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow(n: Numbers, self: Operand, exponent: Operand) -> Value:
    """self^exponent: products for small whole exponents, else e^(exponent ln self).

    A square is lazy: a mean of squares can keep more fraction bits of it.
    """
    if isinstance(self, Value) and isinstance(exponent, int | float) and exponent == 2:
        found = lazy_square(n, self)
        if found is not None:
            return found
    return n.pow(self, exponent)


@implements(aten.hypot.default)
def hypot(n: Numbers, self: Operand, other: Operand) -> Value:
    """The larger times sqrt(1 + t^2), t being the smaller over it: no square leaves the range."""
    a, b = (n.settled(n.absolute(n.operand(x))) for x in (self, other))
    larger = n.settled(n.maximum(a, b))
    ratio = n.div(n.sub(n.add(a, b), larger), larger, positive=True)
    return n.mul(larger, n.sqrt(n.add(n.square(ratio), 1.0)))


@implements(aten.sigmoid.default)
def sigmoid(n: Numbers, self: Value) -> Value:
    """1 / (1 + e^-self)."""
    return n.sigmoid(self)


@implements(aten.sigmoid_backward.default)
def sigmoid_backward(n: Numbers, grad_output: Operand, output: Operand) -> Value:
    """grad (y - y^2), of the output y."""
    slope = n.sub(output, n.square(output)) if isinstance(output, Value) else output * (1 - output)
    return n.mul(grad_output, slope)


@implements(aten.tanh.default)
def tanh(n: Numbers, self: Value) -> Value:
    """The hyperbolic tangent."""
    return n.tanh(self)


@implements(aten.tanh_backward.default)
def tanh_backward(n: Numbers, grad_output: Operand, output: Operand) -> Value:
    """grad (1 - y^2), of the output y."""
    square = n.square(output) if isinstance(output, Value) else output * output
    return n.mul(grad_output, n.sub(1.0, square) if isinstance(square, Value) else 1 - square)


@implements(aten.erf.default)
def erf(n: Numbers, self: Value) -> Value:
    """The error function."""
    return n.erf(self)


@implements(aten.erfc.default)
def erfc(n: Numbers, self: Value) -> Value:
    """1 - erf(self), with the absolute error of erf."""
    return n.sub(1.0, n.erf(self))


@implements(aten.logit.default)
def logit(n: Numbers, self: Value, eps: float | None = None) -> Value:
    """ln x - ln(1 - x), in the rounds of one logarithm."""
    x = n.clamp(self, eps, 1 - eps) if eps is not None else n.settled(self)
    both = n.log(n.combined([x, n.sub(1.0, x)], torch.stack))
    return n.sub(both.map(lambda part: part[0]), both.map(lambda part: part[1]))


@implements(aten.logit_backward.default)
def logit_backward(
    n: Numbers, grad_output: Operand, self: Value, eps: float | None = None
) -> Value:
    """grad / (x (1 - x)), and 0 where x was clamped."""
    x = n.settled(self)
    grad = n.div(grad_output, n.sub(x, n.square(x)))
    return grad if eps is None else n.mul(n.between(x, eps, 1 - eps), grad)


@implements(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)
def xlogy(n: Numbers, self: Operand, other: Operand) -> Value:
    """x ln y. The logarithm of 0 is finite here, so 0 ln 0 is 0."""
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
    """x ln(1 + y)."""
    return xlogy(n, self, n.add(other, 1.0) if isinstance(other, Value) else other + 1.0)


@implements(aten.special_entr.default)
def special_entr(n: Numbers, self: Value) -> Value:
    """-x ln x, for x >= 0."""
    return n.neg(n.mul(self, n.log(self)))


@implements(aten.logaddexp.default)
def logaddexp(n: Numbers, self: Operand, other: Operand) -> Value:
    """ln(e^a + e^b) = b + softplus(a - b)."""
    return n.add(n.softplus(n.sub(self, other)), other)


@implements(aten.logaddexp2.default)
def logaddexp2(n: Numbers, self: Operand, other: Operand) -> Value:
    """The same to base 2."""
    difference = n.mul(n.sub(self, other), ln(2))
    return n.add(n.mul(n.softplus(difference), 1 / ln(2)), other)
