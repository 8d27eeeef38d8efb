"""Comparisons, which give bits, and choices by bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels import pack_bits
from ..protocols import Arith, Bool
from .arithmetic import add, convert, neg, sub
from .debug import check_window
from .dtypes import result_dtype
from .encoding import INFINITE, cap, encode, finite
from .value import Operand, Value

if TYPE_CHECKING:
    from .numbers import Numbers


def less(n: Numbers, a: Operand, b: Operand) -> Value:
    """[a < b]."""
    difference = sub(n, _number(n, a), _number(n, b))
    return Value(n.protocol.sign(compared(n, difference)), torch.bool)


def equal(n: Numbers, a: Operand, b: Operand) -> Value:
    """[a = b]; reals are equal if their integers are."""
    if isinstance(a, Value) and isinstance(b, Value) and a.is_bit and b.is_bit:
        return logical_not(n, logical_xor(n, a, b))
    difference = sub(n, _number(n, a), _number(n, b))
    return Value(n.protocol.is_zero(compared(n, difference)), torch.bool)


def compared(n: Numbers, x: Value) -> Arith:
    """The operand of a comparison, which looks at the bits of differences within the range."""
    share = cap(n, x.arith)
    if n.debug:
        check_window(n, share)
    return share


def _number(n: Numbers, x: Operand) -> Operand:
    if isinstance(x, Value) and x.is_bit:
        return convert(n, x, torch.int64)
    if isinstance(x, Tensor) and x.dtype == torch.bool:
        return x.to(torch.int64)
    return x


def logical_not(n: Numbers, x: Value) -> Value:
    return Value(n.protocol.bit_not(truth(n, x)), torch.bool)


def truth(n: Numbers, x: Value) -> Bool:
    """[x != 0] as bits."""
    return convert(n, x, torch.bool).bits


def _both(n: Numbers, a: Operand, b: Operand) -> tuple[Bool, Bool | Tensor]:
    """The bits of two operands in one shape; the second may be public, as packed words."""
    if not isinstance(a, Value):
        a, b = b, a
    assert isinstance(a, Value)
    x = truth(n, a)
    other = b.shape if isinstance(b, Value | Tensor) else torch.Size()
    shape = torch._C._infer_size(x.shape, other)
    x = x if x.shape == shape else x.expand(*shape)
    if isinstance(b, Value):
        y = truth(n, b)
        return x, y if y.shape == shape else y.expand(*shape)
    return x, pack_bits((torch.as_tensor(b) != 0).expand(shape)).unsqueeze(0)


def logical_and(n: Numbers, a: Operand, b: Operand) -> Value:
    x, y = _both(n, a, b)
    p = n.protocol
    return Value(p.bit_and(x, y) if isinstance(y, Bool) else p.bit_and_public(x, y), torch.bool)


def logical_xor(n: Numbers, a: Operand, b: Operand) -> Value:
    x, y = _both(n, a, b)
    p = n.protocol
    return Value(p.bit_xor(x, y) if isinstance(y, Bool) else p.bit_xor_public(x, y), torch.bool)


def logical_or(n: Numbers, a: Operand, b: Operand) -> Value:
    """a or b = not (not a and not b)."""
    inverted = [
        logical_not(n, x) if isinstance(x, Value) else torch.as_tensor(x) == 0 for x in (a, b)
    ]
    return logical_not(n, logical_and(n, inverted[0], inverted[1]))


def where(n: Numbers, condition: Operand, a: Operand, b: Operand) -> Value:
    """a where the condition holds, b elsewhere. Secret condition: 1 round."""
    if not isinstance(condition, Value):
        return _blend(n, torch.as_tensor(condition) != 0, a, b)
    dtype = result_dtype(a, b)
    bit = truth(n, condition)
    if dtype == torch.bool:
        both = logical_xor(n, n.operand(a), b)
        return logical_xor(n, logical_and(n, condition, both), b)
    if not isinstance(a, Value) and not isinstance(b, Value):
        return _public_choice(n, bit, a, b, dtype)
    if _is_zero(a):  # exactly, whatever division of b is pending
        bit, a, b = n.protocol.bit_not(bit), b, 0
    difference = sub(n, a, b) if isinstance(a, Value) or isinstance(b, Value) else n.operand(a)
    x = convert(n, difference, dtype).arith
    shape = torch._C._infer_size(bit.shape, x.shape)
    bit = bit if bit.shape == shape else bit.expand(*shape)
    x = x if x.shape == shape else x.expand(*shape)
    chosen = Value(n.protocol.inject(bit, x), dtype)
    return chosen if _is_zero(b) else convert(n, add(n, chosen, b), dtype)


def _public_choice(n: Numbers, bit: Bool, a: Operand, b: Operand, dtype: torch.dtype) -> Value:
    """Two public alternatives: the bit as a number, times their difference."""
    number = Value(n.protocol.to_arith(bit), torch.int64)
    low, high = finite(n, torch.as_tensor(b)), finite(n, torch.as_tensor(a))
    elements = encode(n, high.to(dtype) - low.to(dtype), n.bits_of(dtype))
    chosen = n.protocol.mul_public(number.arith, elements)
    return add(n, Value(chosen, dtype), low.to(dtype))


def _is_zero(x: Operand) -> bool:
    if isinstance(x, Value):
        return False
    return bool(x == 0) if not isinstance(x, Tensor) or x.dim() == 0 else False


def _blend(n: Numbers, chosen: Tensor, a: Operand, b: Operand) -> Value:
    """A public condition: local."""
    there = chosen.to(n.device)
    return n.joined([a, b], lambda parts: torch.where(there, parts[0], parts[1]))


def relu(n: Numbers, x: Value) -> tuple[Value, Value]:
    """max(x, 0), and the bit [x >= 0] that its gradient needs."""
    value, bit = n.protocol.relu_with_bit(compared(n, x))
    return Value(value, x.dtype), Value(bit, torch.bool)


def absolute(n: Numbers, x: Value) -> Value:
    return Value(n.protocol.absolute(compared(n, x)), x.dtype)


def clamp(n: Numbers, x: Value, low: float | None, high: float | None) -> Value:
    """x within public bounds, either of which may be missing or infinite."""
    low, high = (end if end is None or abs(end) < INFINITE else None for end in (low, high))
    bits, most = n.bits_of(x.dtype), 2.0 ** (n.fraction_bits + n.range_bits - n.bits_of(x.dtype))
    low = None if low is None or low <= -most else low
    high = None if high is None or high >= most else high
    if low is not None and high is not None and low > high:
        return add(n, n.mul(x, 0), high)  # as torch has it
    ends = [None if end is None else round(end * 2.0**bits) for end in (low, high)]
    if ends[0] is not None and ends[1] is not None:
        return Value(n.protocol.clip(compared(n, x), ends[0], ends[1]), x.dtype)
    if low is not None:
        return add(n, relu(n, sub(n, x, low))[0], low)
    if high is not None:
        return sub(n, x, relu(n, sub(n, x, high))[0])
    return x


def maximum(n: Numbers, a: Operand, b: Operand) -> Value:
    """b + max(a - b, 0)."""
    a, b = _number(n, a), _number(n, b)
    return add(n, relu(n, sub(n, a, b))[0], b)


def minimum(n: Numbers, a: Operand, b: Operand) -> Value:
    """a - max(a - b, 0)."""
    a, b = _number(n, a), _number(n, b)
    difference = relu(n, sub(n, a, b))[0]
    return sub(n, a, difference) if isinstance(a, Value) else add(n, neg(n, difference), a)
