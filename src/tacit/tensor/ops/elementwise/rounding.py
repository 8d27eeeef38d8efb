"""Rounding."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.floor.default)
def floor(n: Numbers, self: Value) -> Value:
    return n.floor(self)


@implements(aten.ceil.default)
def ceil(n: Numbers, self: Value) -> Value:
    return n.ceil(self)


@implements(aten.trunc.default)
def trunc(n: Numbers, self: Value) -> Value:
    return n.trunc(self)


@implements(aten.frac.default)
def frac(n: Numbers, self: Value) -> Value:
    return n.frac(self)


@implements(aten.round.default)
def round(n: Numbers, self: Value) -> Value:
    return n.round(self)


@implements(aten.round.decimals)
def round_decimals(n: Numbers, self: Value, *, decimals: int) -> Value:
    """As torch: the nearest multiple of 10^-decimals, as far as fixed point has it."""
    if decimals == 0:
        return n.round(self)
    factor = 10.0 ** abs(decimals)
    if decimals > 0:
        return n.mul(n.round(n.mul(self, factor)), 1 / factor)
    return n.mul(n.round(n.mul(self, 1 / factor)), factor)
