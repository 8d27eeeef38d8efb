"""Copies and conversions."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.clone.default)
def clone(n: Numbers, self: Value, *, memory_format: Any = None) -> Value:
    """The same value: values are never written, tensors are given new ones."""
    if _for_a_trace():
        raise UnsupportedOp(
            "torch.jit.trace compares results of secrets, which would open them: call the module "
            "itself, or trace with check_trace=False"
        )
    return self


def _for_a_trace() -> bool:
    """Whether torch.jit.trace copies its inputs, to check what it made."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_clone_inputs":
            return bool(frame.f_globals.get("__name__") == "torch.jit._trace")
        frame = frame.f_back
    return False


@implements(aten.lift_fresh.default, aten.lift_fresh_copy.default)
def lift_fresh(n: Numbers, self: Value) -> Value:
    return self


@implements(aten._to_copy.default)
def to_copy(n: Numbers, self: Value, *, dtype: torch.dtype | None = None, **options: Any) -> Value:
    return self if dtype is None else n.convert(self, dtype)


@implements(aten.copy.default)
def copy(n: Numbers, self: Operand, src: Operand, non_blocking: bool = False) -> Value:
    """What is written over `self`: src, in its dtype and shape."""
    assert isinstance(self, Value | torch.Tensor)
    value, shape = n.convert(n.operand(src), self.dtype), self.shape
    return value if value.shape == shape else value.map(lambda part: part.expand(shape))


@implements(aten.fill.Scalar, aten.fill.Tensor)
def fill(n: Numbers, self: Operand, value: Operand) -> Value:
    return copy(n, self, value)


@implements(aten.zero.default)
def zero(n: Numbers, self: Value) -> Value:
    return fill(n, self, 0)
