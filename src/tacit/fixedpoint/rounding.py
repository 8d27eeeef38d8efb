"""Reals rounded to integers, and integer quotients with their remainders.

Integer quotients are exact for the encoded operands: a division gives a guess, a second division
of the remainder improves it, and one comparison corrects it. Division by a secret zero gives a
meaningless number; a public divisor that is 0, or rounds to 0, raises RangeError.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..protocols import Arith
from .arithmetic import add, mul, neg, sub
from .compare import less, where
from .encoding import require_divisor
from .format import Format
from .functions.quotient import divide
from .value import (
    Operand,
    Value,
    convert,
    floor_integer,
    nearest_integer,
    operand,
    real,
    result_dtype,
    settled,
    trunc_integer,
)


def floor(n: Format, x: Value) -> Value:
    """Returns the integer at or below x, in the dtype of x. Exact."""
    return _as_real(n, floor_integer(n, x.arith, n.fraction_bits), x) if x.is_real else x


def ceil(n: Format, x: Value) -> Value:
    """Returns the integer at or above x, in the dtype of x. Exact."""
    return neg(n, floor(n, neg(n, x))) if x.is_real else x


def trunc(n: Format, x: Value) -> Value:
    """Returns x rounded towards zero, in the dtype of x. Exact."""
    return _as_real(n, trunc_integer(n, x.arith, n.fraction_bits), x) if x.is_real else x


def nearest(n: Format, x: Value) -> Value:
    """Returns the integer closest to x, of two the even one, in the dtype of x. Exact."""
    return _as_real(n, nearest_integer(n, x.arith, n.fraction_bits), x) if x.is_real else x


def frac(n: Format, x: Value) -> Value:
    """Returns x - trunc(x), which has the sign of x. Exact."""
    x = settled(n, x)
    return sub(n, x, trunc(n, x))


def _as_real(n: Format, integer: Arith, like: Value) -> Value:
    return convert(n, Value(integer, torch.int64), like.dtype)


def floor_divide(n: Format, a: Operand, b: Operand) -> Value:
    """Returns the integer at or below a / b."""
    magnitude, negative = _split(n, b)
    quotient, _ = _divide_positive(n, _flipped(n, _settled_real(n, a), negative), magnitude)
    return convert(n, quotient, result_dtype(a, b))


def remainder(n: Format, a: Operand, b: Operand) -> Value:
    """Returns a - b floor(a / b), which has the sign of b."""
    magnitude, negative = _split(n, b)
    _, rest = _divide_positive(n, _flipped(n, _settled_real(n, a), negative), magnitude)
    return convert(n, _flipped(n, rest, negative), result_dtype(a, b))


def trunc_divide(n: Format, a: Operand, b: Operand) -> Value:
    """Returns a / b rounded towards zero."""
    magnitude, negative = _split(n, b)
    numerator, sign = _split(n, _settled_real(n, a))
    quotient, _ = _divide_positive(n, operand(n, numerator), magnitude)
    quotient = _flipped(n, _flipped(n, quotient, negative), sign)
    return convert(n, quotient, result_dtype(a, b))


def fmod(n: Format, a: Operand, b: Operand) -> Value:
    """Returns a - b trunc(a / b), which has the sign of a."""
    magnitude, _ = _split(n, b)
    numerator, sign = _split(n, _settled_real(n, a))
    _, rest = _divide_positive(n, operand(n, numerator), magnitude)
    return convert(n, _flipped(n, rest, sign), result_dtype(a, b))


def _divide_positive(n: Format, a: Value, b: Operand) -> tuple[Value, Value]:
    """Returns floor(a / b) as an integer and a - b floor(a / b), for b > 0."""
    quotient, rest = _guess(n, a, b)
    more, rest = _guess(n, rest, b)
    low = convert(n, less(n, rest, 0), torch.int64)
    return sub(n, add(n, quotient, more), low), add(n, rest, mul(n, low, b))


def _guess(n: Format, a: Value, b: Operand) -> tuple[Value, Value]:
    """Returns an integer close to a / b, and the exact remainder."""
    share = divide(n, a, b, positive=True).arith
    integer = Value(nearest_integer(n, share, n.fraction_bits), torch.int64)
    return integer, sub(n, a, mul(n, integer, b))


def _settled_real(n: Format, x: Operand) -> Value:
    return settled(n, real(n, x))


def _split(n: Format, x: Operand) -> tuple[Operand, Operand]:
    """Returns |x| and [x < 0]. A public x, a divisor, is rounded to fixed point as if shared."""
    if not isinstance(x, Value):
        public = torch.as_tensor(x).to(torch.float64)
        unit = 2.0**n.fraction_bits
        magnitude = (public.abs() * unit).round() / unit
        require_divisor(public, magnitude)
        return magnitude, public < 0
    x = _settled_real(n, x)
    negative = less(n, x, 0)
    return where(n, negative, neg(n, x), x), negative


def _flipped(n: Format, x: Value, negative: Operand) -> Value:
    """Returns -x where `negative` holds, x elsewhere."""
    if isinstance(negative, Tensor):
        return mul(n, x, 1 - 2 * negative.to(torch.int64))
    return where(n, negative, neg(n, x), x)
