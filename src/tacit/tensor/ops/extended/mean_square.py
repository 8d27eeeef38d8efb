"""The steps of an RMS norm and of its gradient: see fixedpoint/extended/mean_square.py.

The ordinary rules of mul, pow and var start the chain. What these rules do not handle they pass to
the ordinary rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.extended import mean_square as squares
from ....fixedpoint.extended.fine_gradients import gradient_bits
from ....fixedpoint.extended.mean_square import (
    CubedInverseRoot,
    GradientTimesCube,
    InverseRoot,
    MeanSquare,
    Square,
)
from ...operand import number
from ...table import implements
from ..elementwise import arithmetic, functions
from ..reductions import sums

aten = torch.ops.aten

LARGEST_EPS = 1024.0


@implements(aten.mean.default, aten.mean.dim, kind=Square)
def mean(
    n: Numbers,
    self: Square,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    """The mean of squares, with 10 extra fraction bits."""
    if dtype in (None, self.dtype):
        found = squares.mean_square(n, self.base, dim, keepdim=keepdim)
        if found is not None:
            return found
    return sums.mean(n, self, dim, keepdim, dtype=dtype)


@implements(aten.add.Tensor, aten.add.Scalar, kind=MeanSquare)
def add(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value:
    """A mean of squares and the eps of a norm."""
    summand = number(other)
    if isinstance(self, MeanSquare) and summand is not None and 0 <= alpha * summand < LARGEST_EPS:
        return squares.plus(n, self, alpha * summand)
    return arithmetic.add(n, self, other, alpha=alpha)


@implements(aten.rsqrt.default, kind=MeanSquare)
def rsqrt(n: Numbers, self: MeanSquare) -> Value:
    """1 / sqrt(self) as an extended value."""
    return squares.inverse_root(n, self)


@implements(aten.sqrt.default, kind=MeanSquare)
def sqrt(n: Numbers, self: MeanSquare) -> Value:
    """The root of a mean of squares; relative error 2^-13."""
    return squares.root(n, self)


@implements(aten.pow.Tensor_Scalar, kind=(MeanSquare, InverseRoot))
def pow(n: Numbers, self: Value, exponent: float) -> Value:
    """v^(-1/2) of a mean of squares; r^3 of an inverse root, for the gradient."""
    if exponent == -0.5 and isinstance(self, MeanSquare):
        return squares.inverse_root(n, self)
    if exponent == 3 and isinstance(self, InverseRoot):
        return CubedInverseRoot(n, self)
    return functions.pow(n, self, exponent)


@implements(
    aten.mul.Tensor, aten.mul.Scalar, kind=(InverseRoot, CubedInverseRoot, GradientTimesCube)
)
def mul(n: Numbers, self: Operand, other: Operand) -> Value:
    """Products with an inverse root or with its cube; see NOTE [cubes]."""
    if self is not other:
        for x, y in ((self, other), (other, self)):
            found = _product(n, x, y)
            if found is not None:
                return found
    return arithmetic.mul(n, self, other)


def _product(n: Numbers, x: Operand, other: Operand) -> Value | None:
    if isinstance(other, GradientTimesCube):
        factor = number(x)
        if factor is not None:
            return GradientTimesCube(n, other.grad, other.extended, other.factor * factor)
        return other.times(x) if isinstance(x, Value) and x.is_real else None
    if not isinstance(x, Value) or not x.is_real:
        return None
    if isinstance(other, CubedInverseRoot) and x.shape == other.shape:
        return GradientTimesCube(n, n.settled(x), other.extended)
    if not isinstance(other, InverseRoot):
        return None
    # Gradients without extra bits look like other numbers, and may be as large.
    may_be_gradient = n.extra_bits or not gradient_bits(n)
    return (n.scale_gradient if may_be_gradient else n.mul_extended)(x, other.extended)


@implements(aten.div.Tensor, aten.div.Scalar, kind=GradientTimesCube)
def div(n: Numbers, self: Operand, other: Operand) -> Value:
    """A gradient's product divided by a public number, such as the size of a mean."""
    divisor = number(other)
    if isinstance(self, GradientTimesCube) and divisor:
        return GradientTimesCube(n, self.grad, self.extended, self.factor / divisor)
    return arithmetic.div(n, self, other)
