"""What Adam, RMSprop and Adagrad do with averages of squares: see fixedpoint/extended/moments.py.

Squares become fine where one of torch's optimizers adds them up; from there on these special cases
come before the rules of the same operations, until something else reads them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ....errors import UnsupportedError
from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.extended import moments
from ....fixedpoint.extended.moments import Fine
from ...table import RULES, Rule, implements
from ..elementwise import arithmetic, compare, functions, powers  # noqa: F401  the rules come before this

aten = torch.ops.aten

Handler = Callable[..., Any]


def special(*overloads: OpOverload) -> Callable[[Handler], Handler]:
    """Registers a special case of a rule: where it returns None, the rule is asked."""

    def register(function: Handler) -> Handler:
        for overload in overloads:
            RULES[overload] = _first(function, RULES[overload])
        return function

    return register


def _first(function: Handler, rule: Rule) -> Rule:
    def apply(n: Numbers, *args: Any, **kwargs: Any) -> Any:
        found = function(n, *args, **kwargs)
        return rule.apply(n, *args, **kwargs) if found is None else found

    apply.__name__, apply.__module__ = rule.apply.__name__, rule.apply.__module__
    return Rule(apply, rule.view, rule.writes)


def number(x: Any) -> float | None:
    """A public number, if x is one."""
    if isinstance(x, bool | int | float):
        return float(x)
    return float(x) if isinstance(x, Tensor) and x.dim() == 0 else None


@implements(aten.addcmul.default)
def addcmul(
    n: Numbers, self: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1
) -> Value:
    """self + value tensor1 tensor2."""
    if _is_square(n, tensor1, tensor2) and (isinstance(self, Fine) or asking()):
        return moments.add_square(n, self, n.operand(tensor1), float(value))
    if isinstance(tensor1, Value) or isinstance(tensor2, Value):
        product: Operand = n.mul(tensor1, tensor2)
    else:
        product = torch.as_tensor(tensor1) * torch.as_tensor(tensor2)
    if value != 1:
        product = n.mul(product, value) if isinstance(product, Value) else product * value
    return n.add(self, product)


def _is_square(n: Numbers, a: Operand, b: Operand) -> bool:
    if not isinstance(a, Value) or not isinstance(b, Value) or not a.is_real:
        return False
    if not (a is b or a.share is b.share):
        return False
    if not moments.is_fine(n) and asking():
        raise UnsupportedError(
            "an optimizer that divides by roots of squares of gradients needs ring=64 and 10 to 20 "
            "fraction bits, or their squares vanish: torch.optim.SGD takes any"
        )
    return moments.is_fine(n)


def asking(optimizer: str = "") -> bool:
    """Whether one of torch's optimizers is asking, or the one of this module."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(f"torch.optim.{optimizer}"):
            return True
        frame = frame.f_back
    return False


@special(aten.mul.Tensor, aten.mul.Scalar)
def mul(n: Numbers, self: Operand, other: Operand) -> Value | None:
    if isinstance(self, Fine):
        factor = number(other)
        if factor is not None and 0 < factor <= 64:
            return moments.scaled(n, self, factor)
    return None


@special(aten.div.Tensor, aten.div.Scalar)
def div(n: Numbers, self: Operand, other: Operand) -> Value | None:
    if isinstance(other, Fine) and other.places == moments.ROOT_BITS and isinstance(self, Value):
        return moments.quotient(n, self, other)
    if isinstance(self, Fine):
        divisor = number(other)
        if divisor is not None and divisor >= 1 / 64:
            return moments.scaled(n, self, 1 / divisor)
        if divisor is not None and divisor > 0 and self.places == moments.SQUARE_BITS:
            return moments.corrected(n, self, 1 / divisor) if asking() else None
    return None


@special(aten.add.Tensor, aten.add.Scalar)
def add(n: Numbers, self: Operand, other: Operand, *, alpha: float = 1) -> Value | None:
    if isinstance(self, Fine) and self.places == moments.ROOT_BITS:
        summand = number(other)
        if summand is not None and 0 <= alpha * summand < 1:
            return moments.plus(n, self, alpha * summand)
    return None


@special(aten.lerp.Scalar)
def lerp(n: Numbers, self: Operand, end: Operand, weight: float) -> Value | None:
    real = isinstance(end, Value) and end.is_real and moments.is_fine(n) and 0 < weight < 1
    if real and (isinstance(self, Fine) or asking()):
        return moments.average(n, self, n.operand(end), float(weight))
    return None


@special(aten.sqrt.default)
def sqrt(n: Numbers, self: Operand) -> Value | None:
    if isinstance(self, Fine) and self.places == moments.SQUARE_BITS:
        return moments.root(n, self)
    return None


@special(aten.maximum.default)
def maximum(n: Numbers, self: Operand, other: Operand) -> Value | None:
    if isinstance(self, Fine) and isinstance(other, Fine) and self.places == other.places:
        return moments.larger(n, self, other)
    if isinstance(other, Fine) and isinstance(self, Tensor) and not bool(self.any()):
        return other  # squares are not below zero
    return None


@special(aten.addcdiv.default)
def addcdiv(
    n: Numbers, self: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1
) -> Value | None:
    if (
        isinstance(tensor2, Fine)
        and tensor2.places == moments.ROOT_BITS
        and isinstance(tensor1, Value)
    ):
        ratio = moments.quotient(n, tensor1, tensor2)
        return n.add(self, ratio if value == 1 else n.mul(ratio, value))
    return None
