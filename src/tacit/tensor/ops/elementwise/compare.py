"""Comparisons, logic and choices between values."""

from __future__ import annotations

import torch

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.lt.Tensor, aten.lt.Scalar)
def lt(n: Numbers, self: Operand, other: Operand) -> Value:
    """[self < other], a secret bit. One comparison, exact."""
    return n.less(self, other)


@implements(aten.gt.Tensor, aten.gt.Scalar)
def gt(n: Numbers, self: Operand, other: Operand) -> Value:
    """[self > other], a secret bit. One comparison, exact."""
    return n.less(other, self)


@implements(aten.ge.Tensor, aten.ge.Scalar)
def ge(n: Numbers, self: Operand, other: Operand) -> Value:
    """[self >= other], a secret bit. One comparison, exact."""
    return n.logical_not(n.less(self, other))


@implements(aten.le.Tensor, aten.le.Scalar)
def le(n: Numbers, self: Operand, other: Operand) -> Value:
    """[self <= other], a secret bit. One comparison, exact."""
    return n.logical_not(n.less(other, self))


@implements(aten.eq.Tensor, aten.eq.Scalar)
def eq(n: Numbers, self: Operand, other: Operand) -> Value:
    """[self == other], a secret bit. Exact, also for real numbers."""
    return n.equal(self, other)


@implements(aten.ne.Tensor, aten.ne.Scalar)
def ne(n: Numbers, self: Operand, other: Operand) -> Value:
    """[self != other], a secret bit. Exact, also for real numbers."""
    return n.logical_not(n.equal(self, other))


@implements(aten.logical_not.default)
def logical_not(n: Numbers, self: Value) -> Value:
    """[self == 0]."""
    return n.logical_not(self)


@implements(aten.logical_and.default)
def logical_and(n: Numbers, self: Operand, other: Operand) -> Value:
    """Whether both are not 0."""
    return n.logical_and(self, other)


@implements(aten.logical_or.default)
def logical_or(n: Numbers, self: Operand, other: Operand) -> Value:
    """Whether one of them is not 0."""
    return n.logical_or(self, other)


@implements(aten.logical_xor.default)
def logical_xor(n: Numbers, self: Operand, other: Operand) -> Value:
    """Whether exactly one of them is not 0."""
    return n.logical_xor(self, other)


def _only_bits(name: str, *operands: Operand) -> None:
    for x in operands:
        if x is not True and x is not False and getattr(x, "dtype", None) != torch.bool:
            raise UnsupportedOp(
                f"{name} of secret integers", limit=f"there is {name} of bool tensors only"
            )


@implements(aten.bitwise_not.default)
def bitwise_not(n: Numbers, self: Value) -> Value:
    """The complement: of bits, or -1 - self of integers. Local."""
    return n.logical_not(self) if self.is_bit else n.sub(-1, self)


@implements(aten.bitwise_and.Tensor, aten.bitwise_and.Scalar, aten.bitwise_and.Scalar_Tensor)
def bitwise_and(n: Numbers, self: Operand, other: Operand) -> Value:
    """The conjunction of bits."""
    _only_bits("bitwise_and", self, other)
    return n.logical_and(self, other)


@implements(aten.bitwise_or.Tensor, aten.bitwise_or.Scalar, aten.bitwise_or.Scalar_Tensor)
def bitwise_or(n: Numbers, self: Operand, other: Operand) -> Value:
    """The disjunction of bits."""
    _only_bits("bitwise_or", self, other)
    return n.logical_or(self, other)


@implements(aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar, aten.bitwise_xor.Scalar_Tensor)
def bitwise_xor(n: Numbers, self: Operand, other: Operand) -> Value:
    """The exclusive disjunction of bits. Local."""
    _only_bits("bitwise_xor", self, other)
    return n.logical_xor(self, other)


@implements(aten.where.self)
def where(n: Numbers, condition: Operand, self: Operand, other: Operand) -> Value:
    """self where the condition holds, else other. A secret condition costs one round."""
    return n.where(condition, self, other)


@implements(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(n: Numbers, self: Operand, mask: Operand, value: Operand) -> Value:
    """`value` where the mask is set, else self, in the dtype of self."""
    dtype = self.dtype if isinstance(self, Value | torch.Tensor) else torch.get_default_dtype()
    return n.convert(n.where(mask, value, self), dtype)


@implements(aten.clamp.default)
def clamp(n: Numbers, self: Value, min: float | None = None, max: float | None = None) -> Value:
    """self, not below min and not above max; public ends cost one comparison each."""
    dtype = n.result_dtype(self, *(end for end in (min, max) if end is not None))
    return n.clamp(n.convert(self, dtype), min, max)


@implements(aten.clamp_min.default)
def clamp_min(n: Numbers, self: Value, min: float) -> Value:
    """self, not below min."""
    return clamp(n, self, min, None)


@implements(aten.clamp_max.default)
def clamp_max(n: Numbers, self: Value, max: float) -> Value:
    """self, not above max."""
    return clamp(n, self, None, max)


@implements(aten.clamp.Tensor)
def clamp_tensor(
    n: Numbers, self: Operand, min: Operand | None = None, max: Operand | None = None
) -> Operand:
    """self between tensors of ends, by a comparison with each."""
    low = self if min is None else maximum(n, self, min)
    return low if max is None else minimum(n, low, max)


@implements(aten.clamp_min.Tensor)
def clamp_min_tensor(n: Numbers, self: Operand, min: Operand) -> Operand:
    """The larger of self and min."""
    return maximum(n, self, min)


@implements(aten.clamp_max.Tensor)
def clamp_max_tensor(n: Numbers, self: Operand, max: Operand) -> Operand:
    """The smaller of self and max."""
    return minimum(n, self, max)


@implements(aten.maximum.default, aten.fmax.default)
def maximum(n: Numbers, self: Operand, other: Operand) -> Operand:
    """The larger of two, by a comparison; of bits the disjunction."""
    if isinstance(self, Value) or isinstance(other, Value):
        bits = n.result_dtype(self, other) == torch.bool
        return n.logical_or(self, other) if bits else n.maximum(self, other)
    return torch.maximum(torch.as_tensor(self), torch.as_tensor(other))


@implements(aten.minimum.default, aten.fmin.default)
def minimum(n: Numbers, self: Operand, other: Operand) -> Operand:
    """The smaller of two, by a comparison; of bits the conjunction."""
    if isinstance(self, Value) or isinstance(other, Value):
        bits = n.result_dtype(self, other) == torch.bool
        return n.logical_and(self, other) if bits else n.minimum(self, other)
    return torch.minimum(torch.as_tensor(self), torch.as_tensor(other))


@implements(aten.isin.Tensor_Tensor)
def isin(
    n: Numbers,
    elements: Operand,
    test_elements: Operand,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Value:
    """Whether each element is among others; all pairs are compared."""
    row = test_elements.map(torch.flatten) if isinstance(test_elements, Value) else test_elements
    row = row.flatten() if isinstance(row, torch.Tensor) else row
    column = n.operand(elements).map(lambda part: part.unsqueeze(-1))
    found = n.any(n.equal(column, row), -1)
    return n.logical_not(found) if invert else found


@implements(aten.isnan.default, aten.isinf.default, aten.isposinf.default, aten.isneginf.default)
def isnan(n: Numbers, self: Value) -> Value:
    """False: fixed-point numbers are finite."""
    return n.public(torch.zeros(self.shape, dtype=torch.bool))
