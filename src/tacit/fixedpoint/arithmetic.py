"""Sums and products of values, with each other and with public numbers.

Products are elementwise, or bilinear operations: matrix products, convolutions, contractions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..protocols import (
    MATMUL,
    MUL,
    Arith,
    Bilinear,
    Bool,
    Conv,
    ConvGradInput,
    ConvGradWeight,
)
from ..ring import Window
from ..ring.drawn_numbers import drawn
from .encoding import SIGNIFICANT, encode, encode_factor, factor_bits, subtrahend, summand
from .format import Format, cap, largest_of, most_pending, spare_bits
from .logic import logical_and, logical_or, truth
from .symbolic import SymbolicNumber
from .value import Operand, Value, addable, convert, result_dtype

Call = tuple[Bilinear, Operand, Operand]  # an operation with its operands

SPREAD = 8  # factors of a tensor that are smaller than the largest by 2^8 may need more bits


def as_number(n: Format, x: Value) -> Value:
    """Returns x, with truth values as integers 0 and 1. 1 round for truth values."""
    return convert(n, x, torch.int64) if x.is_bit else x


def add(n: Format, a: Operand, b: Operand) -> Value:
    """Returns a + b; for two truth values, a or b. Local for numbers."""
    if not isinstance(a, Value):
        a, b = b, a
    assert isinstance(a, Value)
    dtype = result_dtype(a, b)
    if dtype == torch.bool:
        return logical_or(n, a, b)
    a = a if a.dtype == dtype else convert(n, a, dtype)
    if not isinstance(b, Value):
        elements = encode(n, summand(n, b), n.bits_of(dtype))
        return Value(n.protocol.add_public(addable(n, a.arith), elements), dtype)
    b = b if b.dtype == dtype else convert(n, b, dtype)
    return Value(n.protocol.add(*_summands(n, a.arith, b.arith)), dtype)


def sub(n: Format, a: Operand, b: Operand) -> Value:
    """Returns a - b. Local for numbers."""
    if isinstance(b, Value):
        if not isinstance(a, Value):
            return add(n, neg(n, b), a)
        dtype = result_dtype(a, b)
        a, b = convert(n, a, dtype), convert(n, b, dtype)
        return Value(n.protocol.sub(*_summands(n, a.arith, b.arith)), dtype)
    return add(n, a, -subtrahend(n, b))


def neg(n: Format, x: Value) -> Value:
    """Returns -x. Local for numbers."""
    x = as_number(n, x)
    return Value(n.protocol.neg(x.arith), x.dtype)


def mul(n: Format, a: Operand, b: Operand) -> Value:
    """Returns the elementwise product. 1 round for two secrets, local with a public factor.

    The division of a product of reals is pending.
    """
    if not isinstance(a, Value):
        a, b = b, a
    assert isinstance(a, Value)
    dtype = result_dtype(a, b)
    if dtype == torch.bool:
        return logical_and(n, a, b)
    if not isinstance(b, Value):
        return _mul_public(n, convert(n, a, dtype) if not a.is_real else a, b, dtype)
    if a.is_bit or b.is_bit:
        bit, other = (a, b) if a.is_bit else (b, a)
        return mul_bit(n, truth(n, bit), add(n, convert(n, other, dtype), 0))
    return _product(n, a, b, dtype)


def mul_bit(n: Format, bit: Bool, x: Value) -> Value:
    """Returns x where the bit is 1, and 0 elsewhere. 1 round."""
    share = x.arith
    shape = torch._C._infer_size(bit.shape, share.shape)
    bit = bit if bit.shape == shape else bit.expand(*shape)
    share = share if share.shape == shape else share.expand(*shape)
    return Value(n.protocol.inject(bit, share), x.dtype)


def _mul_public(n: Format, a: Value, b: Operand, dtype: torch.dtype) -> Value:
    assert not isinstance(b, Value)
    factor = b if isinstance(b, Tensor | float | SymbolicNumber) else int(b)
    x = a.arith
    may_grow = isinstance(factor, Tensor) or abs(factor) > 1
    if spare_bits(n, x) < n.fraction_bits or (may_grow and x.pending > most_pending(n)):
        x = cap(n, n.protocol.settled(x))  # or a result of the whole range could wrap
    product = _times(n, x, factor)
    if product.pending > most_pending(n):  # a later sum with another value could wrap
        product = n.protocol.settled(product)
    return Value(product, dtype)


def _times(n: Format, x: Arith, factor: Tensor | float) -> Arith:
    """Returns x times a public factor. Local, but for tensors of large and small factors.

    The factors of a tensor have as many fraction bits as the largest leaves. Where those are few,
    much smaller factors make a product of their own, which is divided before it is added: 1 round.
    So the result is off by a unit, by 2^-15 of it, and by 2^-17 |x|; in a small ring by 2^-f |x|.
    """
    p, bits = n.protocol, factor_bits(n, x, factor)
    enough = SIGNIFICANT if n.ring.bits == 64 else n.fraction_bits - 1
    small = None if bits >= enough else _much_smaller(factor, bits)
    if small is None:
        return p.mul_public(x, encode_factor(n, factor, bits)).divided(bits)
    assert isinstance(factor, Tensor)
    x = p.settled(x)
    large = p.mul_public(x, encode_factor(n, factor.masked_fill(small, 0), bits))
    rest = p.settled(_times(n, x, factor.masked_fill(~small, 0)).divided(-bits))
    return p.add(large, rest).divided(bits)


def _much_smaller(factor: Tensor | float, bits: int) -> Tensor | None:
    """Returns where factors are far below the largest; None if these fraction bits suffice."""
    if not isinstance(factor, Tensor) or not factor.is_floating_point() or factor.numel() < 2:
        return None
    if (known := drawn(factor)) is not None and known.is_mask:
        return None
    small = factor.abs() < largest_of(factor) * 2.0**-SPREAD
    rounded = (factor.double() * 2.0**bits).frac() != 0
    return small if bool((small & rounded).any()) else None


def _product(n: Format, a: Value, b: Value, dtype: torch.dtype) -> Value:
    """A product of two reals has 2 f fraction bits; the division by 2^f is pending."""
    x, y = broadcast(a.arith, b.arith)
    shift = n.fraction_bits if a.is_real and b.is_real else 0
    return Value(cap(n, n.protocol.bilinear(MUL, x, y, shift=shift)), dtype)


def square(n: Format, x: Value) -> Value:
    """Returns x^2. 1 round; the division of a real is pending."""
    shift = n.fraction_bits if x.is_real else 0
    return Value(cap(n, n.protocol.square(x.arith, shift=shift)), x.dtype)


def sum_(n: Format, x: Value, dims: Sequence[int] = (), *, keepdim: bool = False) -> Value:
    """Returns the sum over dimensions, all of them by default. Local for numbers.

    Its limit grows with the number of terms; `reduce.total` keeps it within the range.
    """
    x = as_number(n, x)
    return Value(addable(n, x.arith).sum(*dims, keepdim=keepdim), x.dtype)


def cumsum(n: Format, x: Value, dim: int) -> Value:
    """Returns the sums of the first 1, 2, 3, ... elements along `dim`. Local for numbers."""
    x = as_number(n, x)
    return Value(addable(n, x.arith).cumsum(dim), x.dtype)


def bilinear(n: Format, op: Bilinear, a: Operand, b: Operand) -> Value:
    """Returns op(a, b). 1 round for two secrets, local with a public operand.

    The division of a product of reals is pending.
    """
    dtype = result_dtype(a, b)
    if isinstance(a, Value) and isinstance(b, Value):
        a, b = as_number(n, a), as_number(n, b)
        shift = n.fraction_bits if a.is_real and b.is_real else 0
        return Value(cap(n, n.protocol.bilinear(op, a.arith, b.arith, shift=shift)), dtype)
    left = isinstance(a, Value)
    secret, public = (a, b) if left else (b, a)
    assert isinstance(secret, Value)
    factor = torch.as_tensor(public)
    x = as_number(n, secret).arith
    shapes = (x.shape, factor.shape) if left else (factor.shape, x.shape)
    grown = op.terms(*shapes).bit_length()
    if spare_bits(n, x) < n.fraction_bits + grown:
        x = cap(n, n.protocol.settled(x))
    bits = factor_bits(n, x, factor, grown)
    product = n.protocol.bilinear_public(op, x, encode_factor(n, factor, bits), left=left)
    if not secret.is_real and dtype.is_floating_point:
        product = product.scaled(1 << n.fraction_bits)
    return Value(cap(n, product.divided(bits)), dtype)


def bilinears(n: Format, calls: Sequence[Call]) -> list[Value]:
    """Returns op(a, b) for each call, all in one round if all operands are secret."""
    if not all(isinstance(x, Value) for _, a, b in calls for x in (a, b)):
        return [bilinear(n, op, a, b) for op, a, b in calls]
    ready = [(op, as_number(n, a), as_number(n, b)) for op, a, b in calls]  # type: ignore[arg-type]
    with n.protocol.parallel():
        shares = [
            n.protocol.bilinear(
                op, a.arith, b.arith, shift=n.fraction_bits if a.is_real and b.is_real else 0
            )
            for op, a, b in ready
        ]
    return [
        Value(cap(n, share), result_dtype(a, b))
        for share, (_, a, b) in zip(shares, ready, strict=True)
    ]


def matmul(n: Format, a: Operand, b: Operand) -> Value:
    """Returns the matrix product, like `torch.matmul`."""
    return bilinear(n, MATMUL, a, b)


def conv(n: Format, x: Operand, weight: Operand, window: Window) -> Value:
    """Returns the convolution. 1 round, local with a public operand; its division is pending."""
    return bilinear(n, Conv(window), x, weight)


def conv_transpose(
    n: Format, x: Operand, weight: Operand, window: Window, shape: Sequence[int]
) -> Value:
    """Returns the transposed convolution, which has this shape. Rounds as `conv`.

    It is the gradient of a convolution by its input.
    """
    return bilinear(n, ConvGradInput(window, tuple(shape)), weight, x)


def conv_grads(
    n: Format,
    grad: Operand,
    x: Operand,
    weight: Operand,
    window: Window,
    *,
    transposed: bool = False,
    wanted: Sequence[bool] = (True, True),
) -> list[Value | None]:
    """Returns the gradients by input and weight, None for those not wanted, in one round."""
    calls = conv_grad_calls(grad, x, weight, window, transposed=transposed)
    made = iter(bilinears(n, [call for call, want in zip(calls, wanted, strict=True) if want]))
    return [next(made) if want else None for want in wanted]


def conv_grad_calls(
    grad: Operand, x: Operand, weight: Operand, window: Window, *, transposed: bool
) -> tuple[Call, Call]:
    """Returns the products that are the gradients of a convolution by input and weight."""
    shape = tuple(weight.shape)  # type: ignore[union-attr]
    if transposed:
        return (Conv(window), grad, weight), (ConvGradWeight(window, shape), grad, x)
    sizes = tuple(x.shape)  # type: ignore[union-attr]
    by_input = ConvGradInput(window, sizes)
    return (by_input, weight, grad), (ConvGradWeight(window, shape), x, grad)


def _summands(n: Format, x: Arith, y: Arith) -> tuple[Arith, Arith]:
    return broadcast(addable(n, x), addable(n, y))


def broadcast(x: Arith, y: Arith) -> tuple[Arith, Arith]:
    """Returns both shares in the shape that torch gives their sum. Local."""
    if x.shape == y.shape:
        return x, y
    shape = torch._C._infer_size(x.shape, y.shape)
    return x.expand(*shape), y.expand(*shape)
