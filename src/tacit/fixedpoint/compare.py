"""Comparisons, which give bits, and choices by bits. r is the rounds of the protocol's `sign`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import RangeError
from ..protocols import Arith, Bool
from .arithmetic import add, as_number, mul, mul_bit, neg, sub
from .encoding import encode, placed, refusal
from .format import Format, cap, largest_in, largest_of, range_remedy
from .logic import logical_and, logical_not, logical_xor, truth
from .value import Operand, Value, combined, comparable, convert, operand, public, result_dtype


def less(n: Format, a: Operand, b: Operand) -> Value:
    """Returns [a < b]. A public operand beyond the range decides by its sign. r rounds."""
    a, b = _number(n, a), _number(n, b)
    if (beyond := _beyond(n, a, b)) is not None:
        decided = torch.as_tensor(b) > 0 if isinstance(a, Value) else torch.as_tensor(a) < 0
        return _decided(n, less, a, b, beyond, decided)
    difference = sub(n, a, b)
    return Value(n.protocol.sign(compared(n, difference)), torch.bool)


def equal(n: Format, a: Operand, b: Operand) -> Value:
    """Returns [a = b]; reals are equal if their ring elements are. Local for two bits."""
    if isinstance(a, Value) and isinstance(b, Value) and a.is_bit and b.is_bit:
        return logical_not(n, logical_xor(n, a, b))
    a, b = _number(n, a), _number(n, b)
    if (beyond := _beyond(n, a, b)) is not None:
        return _decided(n, equal, a, b, beyond, torch.zeros((), dtype=torch.bool))
    difference = sub(n, a, b)
    return Value(n.protocol.is_zero(compared(n, difference)), torch.bool)


def _beyond(n: Format, a: Operand, b: Operand) -> Tensor | None:
    """Returns where the public one of two operands is beyond the range; None if nowhere."""
    if isinstance(a, Value) and isinstance(b, Value):
        return None
    numbers = b if isinstance(a, Value) else a
    assert not isinstance(numbers, Value)
    largest = largest_of(numbers)
    if largest <= 2.0**n.range_bits or largest <= (most := _most(n, result_dtype(a, b))):
        return None
    wide = torch.as_tensor(numbers)
    if bool(wide.isnan().any()):
        raise refusal(n, numbers, n.range_bits, "a public operand of a comparison")
    return (wide < -most) | (wide > most)


def _most(n: Format, dtype: torch.dtype) -> float:
    """Returns the largest magnitude of numbers of this dtype."""
    return 2.0 ** (n.range_bits + n.fraction_bits - n.bits_of(dtype))


def _decided(
    n: Format,
    compare: Callable[[Format, Operand, Operand], Value],
    a: Operand,
    b: Operand,
    beyond: Tensor,
    decided: Tensor,
) -> Value:
    """Returns the bits of a comparison that is decided publicly where `beyond` says so."""
    shape = torch.broadcast_shapes(*(x.shape for x in (a, b) if isinstance(x, Value | Tensor)))
    if bool(beyond.all()):
        return public(n, decided.expand(shape))
    a, b = (x if isinstance(x, Value) else torch.where(beyond, 0, x) for x in (a, b))
    bits = logical_and(n, compare(n, a, b), ~beyond)
    return logical_xor(n, bits, beyond & decided)


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
    a, b = (x if isinstance(x, Value) else placed(n, x) for x in (a, b))
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
    low, high = torch.as_tensor(b), torch.as_tensor(a)
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
    """Returns x within public bounds. A bound that no value reaches, or None, has no effect."""
    bits, most = n.bits_of(x.dtype), _most(n, x.dtype)
    low = None if low is None or low <= -most else low
    high = None if high is None or high >= most else high
    if low is not None and high is not None and low > high:
        return add(n, mul(n, x, 0), high)  # torch.clamp returns the upper bound then
    if low is not None and high is not None:
        first, last = encode(n, low, bits), encode(n, high, bits)
        x = Value(comparable(n, x.arith, (first, last)), x.dtype)
        return Value(n.protocol.clip(compared(n, x), first, last), x.dtype)
    if low is not None:
        return add(n, relu(n, sub(n, x, low))[0], low)
    if high is not None:
        return sub(n, x, relu(n, sub(n, x, high))[0])
    return x


def maximum(n: Format, a: Operand, b: Operand) -> Value:
    """Returns the larger operand, b + max(a - b, 0). r + 1 rounds."""
    a, b = (_bounded(n, x, low=True) for x in (a, b))
    return add(n, relu(n, sub(n, a, b))[0], b)


def minimum(n: Format, a: Operand, b: Operand) -> Value:
    """Returns the smaller operand, a - max(a - b, 0). r + 1 rounds."""
    a, b = (_bounded(n, x, low=False) for x in (a, b))
    difference = relu(n, sub(n, a, b))[0]
    return sub(n, a, difference) if isinstance(a, Value) else add(n, neg(n, difference), a)


def _bounded(n: Format, x: Operand, *, low: bool) -> Operand:
    """Returns x; of public reals, those below (or above) all values become the nearest value."""
    x = _number(n, x)
    real = isinstance(x, float) or (isinstance(x, Tensor) and x.dtype.is_floating_point)
    if isinstance(x, Value) or not real or largest_of(x) <= 2.0**n.range_bits:
        return x
    end = 2.0**n.range_bits
    if isinstance(x, Tensor):
        return x.clamp_min(-end) if low else x.clamp_max(end)
    return max(x, -end) if low else min(x, end)
