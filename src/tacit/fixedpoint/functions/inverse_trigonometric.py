"""Inverse trigonometric and hyperbolic functions; all angles are made of one, `angle`."""

from __future__ import annotations

from functools import cache
from math import atan, pi
from typing import TYPE_CHECKING

import torch

from ...protocols import Arith
from ...protocols.steps import Steps
from ..encoding import cap
from ..value import Operand, Value
from .mantissa import chebyshev_series
from .steps import real, run

if TYPE_CHECKING:
    from ..numbers import Numbers


def angle(n: Numbers, y: Operand, x: Operand) -> Value:
    """The angle of the point (x, y), in (-pi, pi]; 0 for the origin. Error: a few units.

    The arc tangent of the smaller coordinate over the larger one, by a polynomial, then mirrored
    by the three signs: a division and five choices.
    """
    dtype = n.result_dtype(y, x)
    y, x = n.settled(real(n, y)), n.settled(real(n, x))
    far, tall, wide = n.less(x, 0), n.settled(n.absolute(y)), n.settled(n.absolute(x))
    larger = n.settled(n.maximum(tall, wide))
    ratio = n.div(n.sub(n.add(tall, wide), larger), larger, positive=True)
    turn = Value(run(n, _arc, cap(n, n.settled(ratio).arith)), ratio.dtype)
    turn = n.where(n.less(wide, tall), n.sub(pi / 2, turn), turn)
    turn = n.where(far, n.sub(pi, turn), turn)
    return n.convert(n.where(n.less(y, 0), n.neg(turn), turn), dtype)


def _arc(n: Numbers, t: Arith) -> Steps[Arith]:
    """atan(t) for 0 <= t <= 1."""
    p, f = n.protocol, n.fraction_bits
    y = p.add_public(t.promise(2 << f).scaled(2), -(1 << f)).promise(1 << (f + 1))
    return (yield from p.chebyshev.steps(y, _arc_series(2.0**-f), argument_bits=f, fraction_bits=f))


@cache
def _arc_series(tolerance: float) -> tuple[float, ...]:
    return chebyshev_series(lambda y: atan((y + 1) / 2), tolerance)


def arc_tangent(n: Numbers, x: Value) -> Value:
    return angle(n, x, torch.ones((), dtype=real(n, x).dtype))


def arc_sine(n: Numbers, x: Value) -> Value:
    """For |x| <= 1. Near the ends the error is 2^-(f/2), as the slope is without bound."""
    return angle(n, x, _other_side(n, x))


def arc_cosine(n: Numbers, x: Value) -> Value:
    """For |x| <= 1. As `arc_sine`."""
    return angle(n, _other_side(n, x), x)


def _other_side(n: Numbers, x: Value) -> Value:
    """sqrt(1 - x^2)."""
    x = n.settled(real(n, x))
    return n.sqrt(n.mul(n.sub(1.0, x), n.add(x, 1.0)))


def hyperbolic_arc_sine(n: Numbers, x: Value) -> Value:
    """ln(|x| + sqrt(x^2 + 1)) with the sign of x; for |x| below the root of the range."""
    x = n.settled(real(n, x))
    size = n.settled(n.absolute(x))
    value = n.log(n.add(size, n.sqrt(n.add(n.square(size), 1.0))))
    return n.where(n.less(x, 0), n.neg(value), value)


def hyperbolic_arc_cosine(n: Numbers, x: Value) -> Value:
    """ln(x + sqrt(x - 1) sqrt(x + 1)) for x >= 1."""
    x = n.settled(real(n, x))
    both = n.sqrt(n.joined([n.sub(x, 1.0), n.add(x, 1.0)], torch.stack))
    product = n.mul(both.map(lambda part: part[0]), both.map(lambda part: part[1]))
    return n.log(n.add(x, product))
