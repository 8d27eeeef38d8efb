"""Sums and products of values, with each other and with what is public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels import pack_bits
from ..protocols import MUL, Arith, Bool
from .dtypes import result_dtype
from .encoding import cap, decode, encode, finite, most_pending, public_bits, room
from .rounding import trunc_integer
from .value import Operand, Value

if TYPE_CHECKING:
    from .numbers import Numbers


def share(
    n: Numbers, value: Tensor | None, owner: int, shape: Sequence[int], dtype: torch.dtype
) -> Value:
    if dtype == torch.bool:
        planes = None if value is None else pack_bits(value).unsqueeze(0)
        return Value(n.protocol.share_bits(planes, owner, shape), dtype)
    bits = n.bits_of(dtype)
    elements = None if value is None else encode(n, value, bits)
    return Value(cap(n, n.protocol.share(elements, owner, shape)), dtype)


def reveal(n: Numbers, x: Value, to: int | None = None) -> Tensor | None:
    elements = n.protocol.reveal(x.share, to, dtype=x.dtype)
    return None if elements is None else decode(n, elements, x.dtype)


def public(n: Numbers, value: Tensor) -> Value:
    if value.dtype == torch.bool:
        return Value(n.protocol.pack(value), value.dtype, known=value)
    elements = encode(n, finite(n, value), n.bits_of(value.dtype))
    return Value(n.protocol.public(elements), value.dtype, known=value)


def convert(n: Numbers, x: Value, dtype: torch.dtype) -> Value:
    """x in another dtype. Bits become numbers in one round; a real loses its fraction."""
    if x.dtype == dtype:
        return x
    if isinstance(x.share, Bool):
        x = Value(n.protocol.to_arith(x.share), torch.int64)
    if dtype == torch.bool:
        zero = n.protocol.is_zero(x.arith)
        return Value(n.protocol.bit_not(zero), dtype)
    shift = n.bits_of(dtype) - n.bits_of(x.dtype)
    if shift < 0:
        return Value(trunc_integer(n, x.arith, -shift), dtype)
    return Value(x.arith.scaled(1 << shift) if shift else x.arith, dtype)


def settled(n: Numbers, x: Value) -> Value:
    """x with no division pending; done in place, once."""
    if isinstance(x.share, Arith) and (x.share.pending or x.share.dealer is not None):
        n.protocol.settled(x.share)
        return Value(cap(n, x.share), x.dtype)
    return x


def add(n: Numbers, a: Operand, b: Operand) -> Value:
    if not isinstance(a, Value):
        a, b = b, a
    assert isinstance(a, Value)
    dtype = result_dtype(a, b)
    if dtype == torch.bool:
        return n.logical_or(a, b)
    a = convert(n, a, dtype)
    if not isinstance(b, Value):
        elements = encode(n, finite(n, b), n.bits_of(dtype))
        return Value(n.protocol.add_public(a.arith, elements), dtype)
    b = convert(n, b, dtype)
    return Value(n.protocol.add(*_broadcast(a.arith, b.arith)), dtype)


def sub(n: Numbers, a: Operand, b: Operand) -> Value:
    if isinstance(b, Value):
        if not isinstance(a, Value):
            return add(n, neg(n, b), a)
        dtype = result_dtype(a, b)
        a, b = convert(n, a, dtype), convert(n, b, dtype)
        return Value(n.protocol.sub(*_broadcast(a.arith, b.arith)), dtype)
    return add(n, a, -b)


def neg(n: Numbers, x: Value) -> Value:
    x = convert(n, x, torch.int64) if x.is_bit else x
    return Value(n.protocol.neg(x.arith), x.dtype)


def mul(n: Numbers, a: Operand, b: Operand) -> Value:
    """The elementwise product. A secret bit times a number is a choice, in one round."""
    if not isinstance(a, Value):
        a, b = b, a
    assert isinstance(a, Value)
    dtype = result_dtype(a, b)
    if dtype == torch.bool:
        return n.logical_and(a, b)
    if not isinstance(b, Value):
        return _mul_public(n, convert(n, a, dtype) if not a.is_real else a, b, dtype)
    if a.is_bit or b.is_bit:
        bit, other = (a, b) if a.is_bit else (b, a)
        return n.where(bit, convert(n, other, dtype), 0)
    return _product(n, a, b, dtype)


def _mul_public(n: Numbers, a: Value, b: Operand, dtype: torch.dtype) -> Value:
    assert not isinstance(b, Value)
    factor = b if isinstance(b, Tensor | float) else int(b)
    x = a.arith
    if room(n, x) < n.fraction_bits:
        x = cap(n, n.protocol.settled(x))
    bits = public_bits(n, x, factor)
    product = n.protocol.mul_public(x, encode(n, factor, bits)).divided(bits)
    if product.pending > most_pending(n):  # a sum with others would wrap
        product = n.protocol.settled(product)
    return Value(product, dtype)


def _product(n: Numbers, a: Value, b: Value, dtype: torch.dtype) -> Value:
    """Real times real has twice the fraction bits; half of them are divided away, later."""
    x, y = _broadcast(a.arith, b.arith)
    shift = n.fraction_bits if a.is_real and b.is_real else 0
    return Value(cap(n, n.protocol.bilinear(MUL, x, y, shift=shift)), dtype)


def square(n: Numbers, x: Value) -> Value:
    shift = n.fraction_bits if x.is_real else 0
    return Value(cap(n, n.protocol.square(x.arith, shift=shift)), x.dtype)


def sum_(n: Numbers, x: Value, dims: Sequence[int] = (), *, keepdim: bool = False) -> Value:
    """The sum over dimensions, all of them by default. Local."""
    x = convert(n, x, torch.int64) if x.is_bit else x
    return Value(x.arith.sum(*dims, keepdim=keepdim), x.dtype)


def cumsum(n: Numbers, x: Value, dim: int) -> Value:
    x = convert(n, x, torch.int64) if x.is_bit else x
    return Value(x.arith.cumsum(dim), x.dtype)


def _broadcast(x: Arith, y: Arith) -> tuple[Arith, Arith]:
    if x.shape == y.shape:
        return x, y
    shape = torch._C._infer_size(x.shape, y.shape)
    return x.expand(*shape), y.expand(*shape)
