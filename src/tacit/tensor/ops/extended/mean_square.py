"""The steps of an RMS norm and of its gradient: see fixedpoint/extended/mean_square.py.

Where a step is no part of one, the rule of the same operation does it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.extended import mean_square as kept
from ..reductions import reduce  # noqa: F401  its rules come before this
from .moments import number, special

aten = torch.ops.aten

LARGEST_EPS = 1024.0


@special(aten.pow.Tensor_Scalar)
def pow(n: Numbers, self: Operand, exponent: float) -> Value | None:
    if not isinstance(self, Value):
        return None
    if exponent == 3 and isinstance(self, kept.Inverse):
        return kept.Cube(n, self)
    if exponent == -0.5 and isinstance(self, kept.MeanSquare):
        return kept.inverse_root(n, self)
    return kept.squares(n, self) if exponent == 2 else None


@special(aten.mean.default, aten.mean.dim)
def mean(
    n: Numbers,
    self: Value,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value | None:
    if not isinstance(self, kept.Squares) or dtype not in (None, self.dtype):
        return None
    return kept.mean_square(n, self.base, dim, keepdim=keepdim)


@special(aten.var.correction)
def var(
    n: Numbers,
    self: Value,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value | None:
    by = 1 if correction is None else correction
    if not float(by).is_integer() or not self.is_real:
        return None
    return kept.variance(n, self, dim, keepdim=keepdim, correction=int(by))


@special(aten.add.Tensor, aten.add.Scalar)
def add(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value | None:
    if isinstance(self, kept.MeanSquare):
        summand = number(other)
        if summand is not None and 0 <= alpha * summand < LARGEST_EPS:
            return kept.plus(n, self, alpha * summand)
    return None


@special(aten.rsqrt.default)
def rsqrt(n: Numbers, self: Value) -> Value | None:
    return kept.inverse_root(n, self) if isinstance(self, kept.MeanSquare) else None


@special(aten.sqrt.default)
def sqrt(n: Numbers, self: Value) -> Value | None:
    return kept.root(n, self) if isinstance(self, kept.MeanSquare) else None


@special(aten.mul.Tensor, aten.mul.Scalar)
def mul(n: Numbers, self: Operand, other: Operand) -> Value | None:
    if self is other and isinstance(self, Value):
        return kept.squares(n, self)
    return _product(n, self, other) or _product(n, other, self)


def _product(n: Numbers, x: Operand, other: Operand) -> Value | None:
    if isinstance(other, kept.ByCube):
        factor = number(x)
        if factor is not None:
            return kept.ByCube(n, other.grad, other.fine, other.factor * factor)
        return other.times(x) if isinstance(x, Value) and x.is_real else None
    if not isinstance(x, Value) or not x.is_real:
        return None
    if isinstance(other, kept.Cube) and x.shape == other.shape:
        return kept.ByCube(n, n.settled(x), other.fine)
    return n.times_fine(x, other.fine) if isinstance(other, kept.Inverse) else None


@special(aten.div.Tensor, aten.div.Scalar)
def div(n: Numbers, self: Operand, other: Operand) -> Value | None:
    if isinstance(self, kept.ByCube):
        divisor = number(other)
        if divisor:
            return kept.ByCube(n, self.grad, self.fine, self.factor / divisor)
    return None
