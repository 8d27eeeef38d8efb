"""Division with a remainder."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(
    n: Numbers, self: Operand, other: Operand, *, rounding_mode: str | None = None
) -> Value:
    if rounding_mode is None:
        return n.div(self, other)
    divide = n.floor_divide if rounding_mode == "floor" else n.trunc_divide
    return divide(self, other)


@implements(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(n: Numbers, self: Operand, other: Operand) -> Value:
    return n.floor_divide(self, other)


@implements(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(n: Numbers, self: Operand, other: Operand) -> Value:
    return n.remainder(self, other)


@implements(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(n: Numbers, self: Operand, other: Operand) -> Value:
    return n.fmod(self, other)
