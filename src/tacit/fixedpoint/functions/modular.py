"""Quotients rounded down or towards zero, and remainders: exact, as torch's.

NOTE [whole quotient]: a quotient q that is off by one at most leaves a - q b between -b and 2 b;
its sign, and that of a - q b - b, tell what q should have been.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...protocols import MUL, Arith
from ...protocols.steps import Steps, together
from ..scale import cap, encode
from ..value import Operand, Value
from .quotient import divided
from .steps import run

if TYPE_CHECKING:
    from ..numbers import Numbers


def floor_divide(n: Numbers, a: Operand, b: Operand) -> Value:
    """The integer at or below a / b, in the dtype of a / b."""
    a, b, dtype = _alike(n, a, b)
    if isinstance(b, Value):
        a, b = _with_positive_divisor(n, n.operand(a), b)
        return _number(n, run(n, _by_secret, cap(n, a.arith), cap(n, b.arith)), dtype)
    assert isinstance(a, Value)
    sign = torch.where(b < 0, -1, 1)
    a = a if bool((sign > 0).all()) else n.mul(a, sign)
    divisor = encode(n, b.abs(), n.bits_of(dtype))
    return _number(n, run(n, _by_public, cap(n, a.arith), divisor), dtype)


def _alike(n: Numbers, a: Operand, b: Operand) -> tuple[Operand, Value | Tensor, torch.dtype]:
    """Both operands in the dtype of the result."""
    dtype = n.result_dtype(a, b)
    if dtype == torch.bool:
        dtype = torch.int64
    a = n.convert(a, dtype) if isinstance(a, Value) else torch.as_tensor(a).to(dtype)
    b = n.convert(b, dtype) if isinstance(b, Value) else torch.as_tensor(b).to(dtype)
    return a, b, dtype


def _number(n: Numbers, whole: Arith, dtype: torch.dtype) -> Value:
    return n.convert(Value(whole, torch.int64), dtype)


def _with_positive_divisor(n: Numbers, a: Value, b: Value) -> tuple[Value, Value]:
    """a and b, both negated where b is negative."""
    negative = n.less(b, 0)
    return n.where(negative, n.neg(a), a), n.where(negative, n.neg(b), b)


def _by_public(n: Numbers, a: Arith, divisor: Tensor) -> Steps[Arith]:
    p = n.protocol
    a = yield from p.settled.steps(a)
    smallest = max(int(divisor.min()) if divisor.numel() else 1, 1)
    # As many significant bits as fit: factor < 2^bits / smallest.
    bits = min(n.ring.bits - 4 - a.limit.bit_length() + smallest.bit_length(), n.ring.bits - 4)
    factor = (2.0**bits / divisor.double()).round().to(n.ring.dtype)
    quotient = yield from p.settled.steps(p.mul_public(a, factor).divided(bits))
    rest = p.sub(a, p.mul_public(quotient, divisor))
    below, above = yield from together(
        p.sign.steps(cap(n, rest)), p.sign.steps(cap(n, p.add_public(rest, -divisor)))
    )
    return (yield from _corrected(n, quotient, below, above))


def _by_secret(n: Numbers, a: Arith, b: Arith) -> Steps[Arith]:
    p = n.protocol
    a, b = yield from together(p.settled.steps(a), p.settled.steps(b))
    quotient = yield from divided(n, a, b, positive=True)
    quotient = yield from p.settled.steps(quotient.divided(n.fraction_bits))
    rest = p.sub(a, (yield from p.bilinear.steps(MUL, quotient, b)))
    below, above = yield from together(
        p.sign.steps(cap(n, rest)), p.sign.steps(cap(n, p.sub(rest, b)))
    )
    return (yield from _corrected(n, quotient, below, above))


def _corrected(n: Numbers, quotient: Arith, below: object, above: object) -> Steps[Arith]:
    """NOTE [whole quotient]: one less where the rest is negative, one more where it is not < b."""
    p = n.protocol
    less, not_more = yield from together(p.to_arith.steps(below), p.to_arith.steps(above))  # type: ignore[arg-type]
    return p.add_public(p.sub(p.sub(quotient, less), not_more), 1)


def trunc_divide(n: Numbers, a: Operand, b: Operand) -> Value:
    """a / b without its fraction, in the dtype of a / b."""
    if not isinstance(b, Value):
        b = torch.as_tensor(b)
        assert isinstance(a, Value)
        a = a if bool((b > 0).all()) else n.mul(a, torch.where(b < 0, -1, 1).to(torch.int64))
        b = b.abs()
    else:
        a, b = _with_positive_divisor(n, n.operand(a), b)
    a = n.settled(a)
    negative = n.less(a, 0)
    quotient = floor_divide(n, n.where(negative, n.neg(a), a), b)
    return n.where(negative, n.neg(quotient), quotient)


def remainder(n: Numbers, a: Operand, b: Operand) -> Value:
    """a - b floor(a / b), of the sign of b."""
    return n.sub(a, n.mul(floor_divide(n, a, b), b))


def truncated_remainder(n: Numbers, a: Operand, b: Operand) -> Value:
    """a - b trunc(a / b), of the sign of a."""
    return n.sub(a, n.mul(trunc_divide(n, a, b), b))
