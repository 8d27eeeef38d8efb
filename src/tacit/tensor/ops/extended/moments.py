"""What optimizers do with gradients and with averages of them: see fixedpoint/extended/moments.py.

The rules here are for operands of the kinds `Gradient`, `ExtendedValue`, `Ratio` and
`SignedProduct`. What they do not handle they pass to the ordinary rule.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, optim

from ....errors import UnsupportedError
from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.extended import moments
from ....fixedpoint.extended.fine_gradients import gradient_bits, larger
from ....fixedpoint.extended.moments import (
    ExtendedValue,
    Gradient,
    Ratio,
    SignedProduct,
    active_step,
    gradient,
    is_root,
    is_square,
)
from ...operand import number, times
from ...table import implements
from .. import creation
from ..elementwise import arithmetic, compare, functions

aten = torch.ops.aten

LARGEST_FACTOR = 64.0  # of a value with extra fraction bits


def _steps(x: Any, optimizer: type) -> bool:
    """Whether x belongs to a running step of an optimizer of this class."""
    step = active_step(x)
    return step is not None and issubclass(step.optimizer, optimizer)


def _as_gradient(result: Value, x: Operand, raw: Value | None = None) -> Value:
    """The result, as a gradient if x is one of a running step; raw: with its extra bits."""
    if type(result) is Value and isinstance(x, Gradient) and active_step(x) is not None:
        return gradient(result, x.step, raw)
    return result


@implements(aten.neg.default, kind=Gradient)
def neg(n: Numbers, self: Gradient) -> Value:
    """-self, still a gradient."""
    return _as_gradient(n.neg(self), self, None if self.raw is None else n.neg(self.raw))


@implements(aten.abs.default, kind=Gradient)
def abs(n: Numbers, self: Gradient) -> Value:
    """|self|, still a gradient."""
    return _as_gradient(n.absolute(self), self)


@implements(aten.clamp.default, kind=Gradient)
def clamp(n: Numbers, self: Gradient, min: float | None = None, max: float | None = None) -> Value:
    """The clamped gradient, still one."""
    return _as_gradient(compare.clamp(n, self, min, max), self)


@implements(aten.sub.Tensor, aten.sub.Scalar, kind=Gradient)
def sub(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value:
    """self - alpha other; a gradient if self is one."""
    return _as_gradient(arithmetic.sub(n, self, other, alpha=alpha), self)


@implements(aten.add.Tensor, aten.add.Scalar, kind=(Gradient, ExtendedValue))
def add(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value:
    """self + alpha other: weight decay, or a small eps that an ordinary value could not hold."""
    summand = number(other)
    if summand is not None and isinstance(self, ExtendedValue):
        if is_root(self) and 0 <= alpha * summand < 1:
            return moments.add_to_root(n, self, alpha * summand)
        if is_square(self) and 0 < alpha * summand < 1:
            return moments.add_to_square(n, self, alpha * summand)
    added, raw = other if alpha == 1 else times(n, other, alpha), None
    if isinstance(self, Gradient) and self.raw is not None:
        raw = n.widened(gradient_bits(n)).add(self.raw, larger(n, n.operand(added)))
    return _as_gradient(n.add(self, added), self, raw)


@implements(aten.mul.Tensor, aten.mul.Scalar, kind=(Gradient, ExtendedValue, Ratio))
def mul(n: Numbers, self: Operand, other: Operand) -> Value:
    """self other: ratios times gradients, and averages times public factors."""
    for ratio, x in ((self, other), (other, self)):
        if isinstance(ratio, Ratio):
            factor = number(x)
            if factor is not None:
                return Ratio(n, ratio.above, ratio.below, ratio.factor * factor)
            clips = ratio.above is None or active_step(ratio.below) is not None
            if isinstance(x, Value) and x.is_real and clips:
                return moments.ratio_times(n, ratio, x)
    factor = number(other)
    if isinstance(self, ExtendedValue) and factor is not None and 0 < factor <= LARGEST_FACTOR:
        return moments.scaled(n, self, factor)
    if _steps(self, optim.Rprop) and isinstance(other, Value) and self.shape == other.shape:  # type: ignore[union-attr]
        return SignedProduct(n, self, other)  # type: ignore[arg-type]
    return _as_gradient(arithmetic.mul(n, self, other), self)


@implements(aten.sign.default, kind=SignedProduct)
def sign(n: Numbers, self: SignedProduct) -> Value:
    """The product of the factors' signs: the product itself may round to zero."""
    return n.mul(n.sign(self.left), n.sign(self.right))


@implements(aten.div.Tensor, aten.div.Scalar, kind=(Gradient, ExtendedValue))
def div(n: Numbers, self: Operand, other: Operand) -> Value:
    """self / other: by a root of squares, or by a public number."""
    if isinstance(other, ExtendedValue) and is_root(other):
        if _steps(other, optim.Adadelta) and is_root(self):
            return Ratio(n, self, other)  # type: ignore[arg-type]
        if _steps(other, optim.Adadelta) and isinstance(self, Tensor):
            return Ratio(n, moments.public_value(n, self), other)
        if isinstance(self, Value) and self.is_real:
            return moments.quotient(n, self, other)
    divisor = number(other)
    if divisor is not None and isinstance(self, ExtendedValue):
        if divisor >= 1 / LARGEST_FACTOR:
            return moments.scaled(n, self, 1 / divisor)
        if divisor > 0 and is_square(self) and active_step(self) is not None:
            return moments.bias_corrected(n, self, 1 / divisor)
    return _as_gradient(arithmetic.div(n, self, other), self)


@implements(aten.reciprocal.default, kind=ExtendedValue)
def reciprocal(n: Numbers, self: ExtendedValue) -> Value:
    """1 / self, as a ratio that waits for its other factor."""
    return Ratio(n, None, self) if is_root(self) else n.reciprocal(self)


@implements(aten.sqrt.default, kind=ExtendedValue)
def sqrt(n: Numbers, self: ExtendedValue) -> Value:
    """The root, with 26 fraction bits for averages of squares."""
    return moments.root(n, self) if is_square(self) else functions.sqrt(n, self)


@implements(aten.lerp.Scalar, kind=(Gradient, ExtendedValue))
def lerp(n: Numbers, self: Operand, end: Operand, weight: float) -> Value:
    """self + weight (end - self), with 26 fraction bits where `end` is a gradient."""
    if isinstance(end, Gradient) and active_step(end) is not None and moments.has_room(n):
        if 0 < weight < 1:
            return moments.average(n, self, end, weight)
        if weight == 1:
            return end
    return arithmetic.lerp(n, self, end, weight)


@implements(aten.maximum.default, kind=(Gradient, ExtendedValue))
def maximum(n: Numbers, self: Operand, other: Operand) -> Operand:
    """The larger: of averages of squares (amsgrad), or of a maximum and a gradient (Adamax)."""
    if (is_square(self) and is_square(other)) or (is_root(self) and is_root(other)):
        return moments.larger(n, self, other)  # type: ignore[arg-type]
    if is_square(other) and isinstance(self, Tensor) and not bool(self.any()):
        return other  # squares are not below zero
    if isinstance(other, Gradient) and _steps(other, optim.Adamax) and moments.has_room(n):
        return moments.largest_size(n, self, other)
    return compare.maximum(n, self, other)


@implements(aten.addcmul.default, kind=(Gradient, ExtendedValue))
def addcmul(
    n: Numbers, self: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1
) -> Value:
    """self + value tensor1 tensor2, with 40 fraction bits for squares of gradients."""
    if isinstance(tensor1, Value) and _is_gradient_squared(n, self, tensor1, tensor2):
        return moments.add_square(n, self, tensor1, float(value))
    return arithmetic.addcmul(n, self, tensor1, tensor2, value=value)


def _is_gradient_squared(n: Numbers, total: Operand, a: Value, b: Operand) -> bool:
    if is_root(a):
        return a is b and (is_square(total) or active_step(a) is not None)
    same = isinstance(a, Gradient) and isinstance(b, Gradient) and a.share is b.share
    if not same or not a.is_real or active_step(a) is None:
        return False
    if not moments.has_room(n):
        raise UnsupportedError(
            "an optimizer that divides by roots of squares of gradients",
            limit="it needs ring=64 and 10 to 20 fraction bits, or the squares vanish",
            remedy="use these, or torch.optim.SGD, which takes any",
        )
    return True


@implements(aten.addcdiv.default, kind=(Gradient, ExtendedValue))
def addcdiv(
    n: Numbers, self: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1
) -> Value:
    """self + value tensor1 / tensor2, where tensor2 may be a root of squares."""
    if isinstance(tensor2, ExtendedValue) and is_root(tensor2) and isinstance(tensor1, Value):
        ratio = moments.quotient(n, tensor1, tensor2)
        return n.add(self, ratio if value == 1 else n.mul(ratio, value))
    return arithmetic.addcdiv(n, self, tensor1, tensor2, value=value)


@implements(aten.clone.default, kind=Gradient)
def clone(n: Numbers, self: Gradient, *, memory_format: Any = None) -> Value:
    """The same numbers: a copy is no gradient."""
    return self.ordinary()


@implements(aten.copy.default, kind=Gradient)
def copy(n: Numbers, self: Operand, src: Operand, non_blocking: bool = False) -> Value:
    """What is written over `self`: a copy is no gradient."""
    value = src.ordinary() if isinstance(src, Gradient) else src
    return creation.copy(n, self, value)
