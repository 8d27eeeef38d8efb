"""Sums, products, quotients, remainders and rounding, element by element."""

from __future__ import annotations

from typing import Any

import torch

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.encoding import require_divisor
from ....fixedpoint.extended.mean_square import lazy_square
from ...operand import times
from ...table import implements

aten = torch.ops.aten


@implements(aten.add.Tensor, lazy=True)
@implements(aten.add.Scalar)
def add(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value:
    """self + alpha other. Local."""
    return n.add(self, other if alpha == 1 else times(n, other, alpha))


@implements(aten.sub.Tensor, aten.sub.Scalar)
def sub(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value:
    """self - alpha other. Local."""
    return n.sub(self, other if alpha == 1 else times(n, other, alpha))


@implements(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(n: Numbers, self: Operand, other: Operand, alpha: float = 1) -> Value:
    """other - alpha self. Local."""
    return n.sub(other, self if alpha == 1 else times(n, self, alpha))


@implements(aten.mul.Tensor, aten.mul.Scalar, lazy=True)
def mul(n: Numbers, self: Operand, other: Operand) -> Any:
    """self other. A square is lazy: a mean of squares can keep more fraction bits of it."""
    if self is other and isinstance(self, Value):
        found = lazy_square(n, self)
        if found is not None:
            return found
    return times(n, self, other)


@implements(aten.neg.default, lazy=True)
def neg(n: Numbers, self: Value) -> Value:
    """-self. Local."""
    return n.neg(self)


@implements(aten.abs.default)
def abs(n: Numbers, self: Value) -> Value:
    """|self|, by a comparison with 0."""
    return self if self.is_bit else n.absolute(self)


@implements(aten.sign.default, aten.sgn.default)
def sign(n: Numbers, self: Value) -> Value:
    """-1, 0 or 1, by two comparisons."""
    return n.sign(self)


@implements(aten.signbit.default)
def signbit(n: Numbers, self: Value) -> Value:
    """[self < 0]: fixed point has no negative zero."""
    return n.less(self, 0)


@implements(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(n: Numbers, self: Operand, other: Operand) -> Value:
    """|self| with the sign of other; a secret zero counts as positive."""
    size = n.settled(n.absolute(n.operand(self)))
    if isinstance(other, Value):
        return n.where(n.less(other, 0), n.neg(size), size)
    return n.mul(size, 1 - 2 * torch.as_tensor(other).signbit().to(torch.int64))


@implements(aten.heaviside.default)
def heaviside(n: Numbers, self: Operand, values: Operand) -> Value:
    """0 below zero, 1 above, and `values` at zero."""
    positive = n.convert(n.less(0, self), n.result_dtype(self, values))
    return n.where(n.equal(self, 0), values, positive)


@implements(aten.addcmul.default)
def addcmul(
    n: Numbers, self: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1
) -> Value:
    """self + value tensor1 tensor2."""
    if isinstance(tensor1, Value) or isinstance(tensor2, Value):
        product: Operand = n.mul(tensor1, tensor2)
    else:
        product = torch.as_tensor(tensor1) * torch.as_tensor(tensor2)
    return n.add(self, product if value == 1 else times(n, product, value))


@implements(aten.addcdiv.default)
def addcdiv(
    n: Numbers, self: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1
) -> Value:
    """self + value tensor1 / tensor2."""
    if isinstance(tensor1, Value) or isinstance(tensor2, Value):
        quotient: Operand = n.div(tensor1, tensor2)
    else:
        divisor = torch.as_tensor(tensor2)
        require_divisor(divisor)
        quotient = torch.as_tensor(tensor1) / divisor
    return n.add(self, quotient if value == 1 else times(n, quotient, value))


@implements(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(n: Numbers, self: Operand, end: Operand, weight: Operand) -> Value:
    """self + weight (end - self)."""
    if isinstance(self, Value) or isinstance(end, Value):
        difference: Operand = n.sub(end, self)
    else:
        difference = torch.as_tensor(end) - torch.as_tensor(self)
    if isinstance(difference, Value) or isinstance(weight, Value):
        return n.add(self, n.mul(difference, weight))
    raise UnsupportedOp("lerp of public tensors only")


# Quotients and remainders ------------------------------------------------------------------------


@implements(aten.div.Tensor, aten.div.Scalar, lazy=True)
def div(n: Numbers, self: Operand, other: Operand) -> Value:
    """self / other. Relative error 2^-15 and two units; division by zero saturates."""
    return n.div(self, other)


@implements(aten.reciprocal.default)
def reciprocal(n: Numbers, self: Value) -> Value:
    """1 / self. Relative error 2^-15 and a unit; 1 / 0 is 2^f, the largest."""
    return n.reciprocal(self)


@implements(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(
    n: Numbers, self: Operand, other: Operand, *, rounding_mode: str | None = None
) -> Value:
    """self / other, rounded down ("floor"), toward zero ("trunc") or not at all."""
    if rounding_mode is None:
        return n.div(self, other)
    divide = n.floor_divide if rounding_mode == "floor" else n.trunc_divide
    return divide(self, other)


@implements(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(n: Numbers, self: Operand, other: Operand) -> Value:
    """self / other, rounded down."""
    return n.floor_divide(self, other)


@implements(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(n: Numbers, self: Operand, other: Operand) -> Value:
    """self - other floor(self / other): it has the sign of the divisor."""
    return n.remainder(self, other)


@implements(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(n: Numbers, self: Operand, other: Operand) -> Value:
    """self - other trunc(self / other): it has the sign of the dividend."""
    return n.fmod(self, other)


# Rounding ----------------------------------------------------------------------------------------


@implements(aten.floor.default)
def floor(n: Numbers, self: Value) -> Value:
    """The largest integer that is not above. Exact."""
    return n.floor(self)


@implements(aten.ceil.default)
def ceil(n: Numbers, self: Value) -> Value:
    """The smallest integer that is not below. Exact."""
    return n.ceil(self)


@implements(aten.trunc.default)
def trunc(n: Numbers, self: Value) -> Value:
    """The integer part, toward zero. Exact."""
    return n.trunc(self)


@implements(aten.frac.default)
def frac(n: Numbers, self: Value) -> Value:
    """What is left of the integer part. Exact."""
    return n.frac(self)


@implements(aten.round.default)
def round(n: Numbers, self: Value) -> Value:
    """The nearest integer, of two the even one. Exact."""
    return n.round(self)


@implements(aten.round.decimals)
def round_decimals(n: Numbers, self: Value, *, decimals: int) -> Value:
    """The nearest multiple of 10^-decimals, as far as fixed point has it."""
    if decimals == 0:
        return n.round(self)
    factor = 10.0 ** max(decimals, -decimals)
    up, down = (factor, 1 / factor) if decimals > 0 else (1 / factor, factor)
    return n.mul(n.round(n.mul(self, up)), down)
