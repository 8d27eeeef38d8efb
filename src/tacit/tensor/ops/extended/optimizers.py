"""What Adadelta, Adamax, RAdam and Rprop need beside moments.py."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.extended import moments, ratios
from ....fixedpoint.extended.mean_square import Kept
from ....fixedpoint.extended.moments import Fine
from ....fixedpoint.extended.ratios import Ratio
from .moments import asking, number, special

aten = torch.ops.aten


class Product(Kept):
    """left right, whose sign is that of the factors however small it is."""

    left: Value
    right: Value

    def __init__(self, n: Numbers, left: Value, right: Value) -> None:
        super().__init__(lambda: n.mul(left, right), left.shape, left.dtype)
        self.also(left=left, right=right)


def _is_root(x: Operand) -> bool:
    return isinstance(x, Fine) and x.places == moments.ROOT_BITS


@special(aten.add.Tensor, aten.add.Scalar)
def add(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value | None:
    """Adadelta's averages of squares and their eps, which is below the resolution of others."""
    eps = number(other)
    if eps is None or not moments.is_fine(n) or not asking("adadelta") or not 0 < alpha * eps < 1:
        return None
    return ratios.plus(n, self, alpha * eps)


@special(aten.sqrt.default)
def sqrt(n: Numbers, self: Operand) -> Value | None:
    """The root of what is public: Adadelta's eps, before the first step."""
    if isinstance(self, Value) and self.known is not None and asking("adadelta"):
        return ratios.public_root(n, self.known) if moments.is_fine(n) else None
    return None


@special(aten.div.Tensor, aten.div.Scalar)
def div(n: Numbers, self: Operand, other: Operand) -> Value | None:
    if isinstance(self, Fine) and isinstance(other, Fine) and _is_root(self) and _is_root(other):
        return Ratio(n, self, other) if asking("adadelta") else None
    return None


@special(aten.reciprocal.default)
def reciprocal(n: Numbers, self: Operand) -> Value | None:
    return Ratio(n, None, self) if isinstance(self, Fine) and _is_root(self) else None


@special(aten.mul.Tensor, aten.mul.Scalar)
def mul(n: Numbers, self: Operand, other: Operand) -> Value | None:
    for ratio, x in ((self, other), (other, self)):
        if isinstance(ratio, Ratio) and number(x) is not None:
            return Ratio(n, ratio.above, ratio.below, ratio.factor * float(x))  # type: ignore[arg-type]
        if isinstance(ratio, Ratio) and isinstance(x, Value) and x.is_real:
            return ratios.times(n, ratio, x)
    both = isinstance(self, Value) and isinstance(other, Value) and self.shape == other.shape
    if both and not isinstance(self, Product) and asking("rprop"):
        return Product(n, self, other)  # type: ignore[arg-type]
    return None


@special(aten.sign.default)
def sign(n: Numbers, self: Operand) -> Value | None:
    return n.mul(n.sign(self.left), n.sign(self.right)) if isinstance(self, Product) else None


@special(aten.maximum.default)
def maximum(n: Numbers, self: Operand, other: Operand) -> Value | None:
    """Adamax's largest gradient, which forgets less than a unit in a step."""
    if isinstance(other, Value) and other.is_real and moments.is_fine(n) and asking("adamax"):
        return ratios.largest(n, self, other)
    return None
