"""Comparisons, which give bits, and choices by bits. r is the rounds of the protocol's `sign`."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import RangeError
from ..protocols import Arith, Bool
from .arithmetic import add, as_number, mul, mul_bit, neg, sub
from .format import INFINITE, Format, cap, encode, finite, largest_in, range_remedy
from .logic import logical_and, logical_not, logical_xor, truth
from .value import Operand, Value, combined, convert, operand, result_dtype


def less(n: Format, a: Operand, b: Operand) -> Value:
    """Returns [a < b], for |a - b| < 2^range_bits. r rounds."""
    difference = sub(n, _number(n, a), _number(n, b))
    return Value(n.protocol.sign(compared(n, difference)), torch.bool)


def equal(n: Format, a: Operand, b: Operand) -> Value:
    """Returns [a = b]; reals are equal if their ring elements are. Local for two bits."""
    if isinstance(a, Value) and isinstance(b, Value) and a.is_bit and b.is_bit:
        return logical_not(n, logical_xor(n, a, b))
    difference = sub(n, _number(n, a), _number(n, b))
    return Value(n.protocol.is_zero(compared(n, difference)), torch.bool)


def compared(n: Format, x: Value) -> Arith:
    """Returns the share of x for a comparison, which looks only at the bits of the range.

    In debug mode raises RangeError if x has more bits than that.
    """
    share = cap(n, x.arith)
    if n.debug:
        _check_window(n, share)
    return share


def _check_window(n: Format, x: Arith) -> None:
    bits = x.width - 1
    if largest_in(x) >> x.pending >= 1 << bits:
        most = f"2^{bits - n.fraction_bits} in magnitude with {n.fraction_bits} fraction bits"
        raise RangeError("what is compared is beyond its range", limit=most, remedy=range_remedy(n))


def _number(n: Format, x: Operand) -> Operand:
    """Returns x with truth values as integers."""
    if isinstance(x, Value):
        return as_number(n, x)
    if isinstance(x, Tensor) and x.dtype == torch.bool:
        return x.to(torch.int64)
    return x


def where(n: Format, condition: Operand, a: Operand, b: Operand) -> Value:
    """Returns a where the condition holds, b elsewhere. 1 round; local if it is public."""
    if not isinstance(condition, Value):
        return _where_public(n, torch.as_tensor(condition) != 0, a, b)
    dtype = result_dtype(a, b)
    bit = truth(n, condition)
    if dtype == torch.bool:
        both = logical_xor(n, operand(n, a), b)
        return logical_xor(n, logical_and(n, condition, both), b)
    if not isinstance(a, Value) and not isinstance(b, Value):
        return _choice_of_public(n, bit, a, b, dtype)
    if _is_zero(a):  # then the result is exactly 0 there, whatever division of b is pending
        bit, a, b = n.protocol.bit_not(bit), b, 0
    chosen = mul_bit(n, bit, convert(n, sub(n, a, b), dtype))
    return chosen if _is_zero(b) else convert(n, add(n, chosen, b), dtype)


def _choice_of_public(n: Format, bit: Bool, a: Operand, b: Operand, dtype: torch.dtype) -> Value:
    """Returns b + bit (a - b) for two public operands."""
    number = Value(n.protocol.to_arith(bit), torch.int64)
    low, high = finite(n, torch.as_tensor(b)), finite(n, torch.as_tensor(a))
    elements = encode(n, high.to(dtype) - low.to(dtype), n.bits_of(dtype))
    chosen = n.protocol.mul_public(number.arith, elements)
    return add(n, Value(chosen, dtype), low.to(dtype))


def _is_zero(x: Operand) -> bool:
    """Whether x is one public zero."""
    if isinstance(x, Value):
        return False
    return bool(x == 0) if not isinstance(x, Tensor) or x.dim() == 0 else False


def _where_public(n: Format, condition: Tensor, a: Operand, b: Operand) -> Value:
    chosen = condition.to(n.device)
    return combined(n, [a, b], lambda parts: torch.where(chosen, parts[0], parts[1]))


def relu(n: Format, x: Value) -> tuple[Value, Value]:
    """Returns max(x, 0), and the bit [x >= 0] for its gradient. r + 1 rounds."""
    value, bit = n.protocol.relu_with_bit(compared(n, x))
    return Value(value, x.dtype), Value(bit, torch.bool)


def absolute(n: Format, x: Value) -> Value:
    """Returns |x|. r + 1 rounds."""
    return Value(n.protocol.absolute(compared(n, x)), x.dtype)


def clamp(n: Format, x: Value, low: float | None, high: float | None) -> Value:
    """Returns x within public bounds. A bound that is None or beyond the range is ignored."""
    low, high = (end if end is None or abs(end) < INFINITE else None for end in (low, high))
    bits, most = n.bits_of(x.dtype), 2.0 ** (n.fraction_bits + n.range_bits - n.bits_of(x.dtype))
    low = None if low is None or low <= -most else low
    high = None if high is None or high >= most else high
    if low is not None and high is not None and low > high:
        return add(n, mul(n, x, 0), high)  # torch.clamp returns the upper bound then
    ends = [None if end is None else round(end * 2.0**bits) for end in (low, high)]
    if ends[0] is not None and ends[1] is not None:
        return Value(n.protocol.clip(compared(n, x), ends[0], ends[1]), x.dtype)
    if low is not None:
        return add(n, relu(n, sub(n, x, low))[0], low)
    if high is not None:
        return sub(n, x, relu(n, sub(n, x, high))[0])
    return x


def maximum(n: Format, a: Operand, b: Operand) -> Value:
    """Returns the larger operand, b + max(a - b, 0). r + 1 rounds."""
    a, b = _number(n, a), _number(n, b)
    return add(n, relu(n, sub(n, a, b))[0], b)


def minimum(n: Format, a: Operand, b: Operand) -> Value:
    """Returns the smaller operand, a - max(a - b, 0). r + 1 rounds."""
    a, b = _number(n, a), _number(n, b)
    difference = relu(n, sub(n, a, b))[0]
    return sub(n, a, difference) if isinstance(a, Value) else add(n, neg(n, difference), a)
