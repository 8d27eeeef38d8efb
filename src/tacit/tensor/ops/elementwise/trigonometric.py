"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import torch

from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten.sin.default)
def sin(n: Numbers, self: Value) -> Value:
    """The sine, of radians."""
    return n.sin(self)


@implements(aten.cos.default)
def cos(n: Numbers, self: Value) -> Value:
    """The cosine, of radians."""
    return n.cos(self)


@implements(aten.tan.default)
def tan(n: Numbers, self: Value) -> Value:
    """The tangent, up to its poles. Relative error 2^-14 + |result| 2^-26."""
    return n.tan(self)


@implements(aten.sinc.default)
def sinc(n: Numbers, self: Value) -> Value:
    """sin(pi x) / (pi x), and 1 at 0."""
    x = n.settled(n.mul(self, pi))
    zero = n.equal(x, 0)
    ratio = n.div(n.sin(x), n.where(zero, 1.0, x))
    return n.where(zero, 1.0, ratio)


@implements(aten.deg2rad.default)
def deg2rad(n: Numbers, self: Value) -> Value:
    """Degrees as radians."""
    return n.mul(self, pi / 180)


@implements(aten.rad2deg.default)
def rad2deg(n: Numbers, self: Value) -> Value:
    """Radians as degrees."""
    return n.mul(self, 180 / pi)


@implements(aten.asin.default)
def asin(n: Numbers, self: Value) -> Value:
    """The inverse sine, for -1 <= self <= 1."""
    return n.asin(self)


@implements(aten.acos.default)
def acos(n: Numbers, self: Value) -> Value:
    """The inverse cosine, for -1 <= self <= 1."""
    return n.acos(self)


@implements(aten.atan.default)
def atan(n: Numbers, self: Value) -> Value:
    """The inverse tangent."""
    return n.atan(self)


@implements(aten.atan2.default)
def atan2(n: Numbers, self: Operand, other: Operand) -> Value:
    """The angle of the point (other, self)."""
    return n.atan2(self, other)


@implements(aten.sinh.default)
def sinh(n: Numbers, self: Value) -> Value:
    """(e^x - e^-x) / 2, in the rounds of one exponential."""
    plus, minus = _at_both_signs(n, n.exp, self)
    return n.div(n.sub(plus, minus), 2)


@implements(aten.cosh.default)
def cosh(n: Numbers, self: Value) -> Value:
    """(e^x + e^-x) / 2, in the rounds of one exponential."""
    plus, minus = _at_both_signs(n, n.exp, self)
    return n.div(n.add(plus, minus), 2)


@implements(aten.atanh.default)
def atanh(n: Numbers, self: Value) -> Value:
    """(ln(1 + x) - ln(1 - x)) / 2, in the rounds of one logarithm."""
    plus, minus = _at_both_signs(n, lambda x: n.log(n.add(x, 1.0)), self)
    return n.div(n.sub(plus, minus), 2)


@implements(aten.asinh.default)
def asinh(n: Numbers, self: Value) -> Value:
    """The inverse hyperbolic sine."""
    return n.asinh(self)


@implements(aten.acosh.default)
def acosh(n: Numbers, self: Value) -> Value:
    """The inverse hyperbolic cosine, for self >= 1."""
    return n.acosh(self)


def _at_both_signs(n: Numbers, function: Callable[[Value], Value], x: Value) -> tuple[Value, Value]:
    """The function at x and at -x, in the rounds of one."""
    x = n.settled(n.convert(x, torch.get_default_dtype()) if not x.is_real else x)
    made = function(n.combined([x, n.neg(x)], torch.stack))
    return made.map(lambda part: part[0]), made.map(lambda part: part[1])
