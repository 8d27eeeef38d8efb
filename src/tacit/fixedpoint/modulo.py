"""Quotients rounded to whole numbers, and what remains.

Exact for the encoded operands: the quotient is guessed by a division, improved by another of what
remains, and set right by one comparison. Division by zero gives no meaning; nothing raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .rounding import nearest_integer
from .value import Operand, Value

if TYPE_CHECKING:
    from .numbers import Numbers


def floor_divide(n: Numbers, a: Operand, b: Operand) -> Value:
    """The whole number at or below a / b."""
    magnitude, negative = _split(n, b)
    quotient, _ = _below(n, _flipped(n, _real(n, a), negative), magnitude)
    return n.convert(quotient, n.result_dtype(a, b))


def remainder(n: Numbers, a: Operand, b: Operand) -> Value:
    """a - b floor(a / b), which has the sign of b."""
    magnitude, negative = _split(n, b)
    _, rest = _below(n, _flipped(n, _real(n, a), negative), magnitude)
    return n.convert(_flipped(n, rest, negative), n.result_dtype(a, b))


def trunc_divide(n: Numbers, a: Operand, b: Operand) -> Value:
    """The whole number at a / b or next to it towards zero."""
    magnitude, negative = _split(n, b)
    numerator, sign = _split(n, _real(n, a))
    quotient, _ = _below(n, n.operand(numerator), magnitude)
    quotient = _flipped(n, _flipped(n, quotient, negative), sign)
    return n.convert(quotient, n.result_dtype(a, b))


def fmod(n: Numbers, a: Operand, b: Operand) -> Value:
    """a - b trunc(a / b), which has the sign of a."""
    magnitude, _ = _split(n, b)
    numerator, sign = _split(n, _real(n, a))
    _, rest = _below(n, n.operand(numerator), magnitude)
    return n.convert(_flipped(n, rest, sign), n.result_dtype(a, b))


def _below(n: Numbers, a: Value, b: Operand) -> tuple[Value, Value]:
    """floor(a / b) as an integer and a - b floor(a / b), for b > 0."""
    quotient, rest = _guess(n, a, b)
    more, rest = _guess(n, rest, b)
    low = n.convert(n.less(rest, 0), torch.int64)
    return n.sub(n.add(quotient, more), low), n.add(rest, n.mul(low, b))


def _guess(n: Numbers, a: Value, b: Operand) -> tuple[Value, Value]:
    """A whole number close to a / b, and what remains, exactly."""
    share = n.div(a, b, positive=True).arith
    whole = Value(nearest_integer(n, share, n.fraction_bits), torch.int64)
    return whole, n.sub(a, n.mul(whole, b))


def _real(n: Numbers, x: Operand) -> Value:
    value = n.operand(x)
    return n.settled(value if value.is_real else n.convert(value, torch.get_default_dtype()))


def _split(n: Numbers, x: Operand) -> tuple[Operand, Operand]:
    """|x| and [x < 0]. A public x is rounded as it would be shared."""
    if not isinstance(x, Value):
        public = torch.as_tensor(x).to(torch.float64)
        unit = 2.0**n.fraction_bits
        return (public.abs() * unit).round() / unit, public < 0
    x = _real(n, x)
    negative = n.less(x, 0)
    return n.where(negative, n.neg(x), x), negative


def _flipped(n: Numbers, x: Value, negative: Operand) -> Value:
    """-x where the sign is negative."""
    if isinstance(negative, Tensor):
        return n.mul(x, 1 - 2 * negative.to(torch.int64))
    return n.where(negative, n.neg(x), x)
