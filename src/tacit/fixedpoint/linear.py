"""Matrix products, convolutions and other bilinear operations of values, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..protocols import MATMUL, Bilinear, Conv, ConvGradInput, ConvGradWeight
from ..ring import Window
from .conversion import as_number
from .format import Format, cap, encode, public_bits, room
from .value import Operand, Value, result_dtype


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
    if room(n, x) < n.fraction_bits + grown:
        x = cap(n, n.protocol.settled(x))
    bits = public_bits(n, x, factor, grown)
    product = n.protocol.bilinear_public(op, x, encode(n, factor, bits), left=left)
    if not secret.is_real and dtype.is_floating_point:
        product = product.scaled(1 << n.fraction_bits)
    return Value(cap(n, product.divided(bits)), dtype)


def bilinears(n: Format, calls: Sequence[tuple[Bilinear, Operand, Operand]]) -> list[Value]:
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
    shape = tuple(weight.shape)  # type: ignore[union-attr]
    by_input: tuple[Bilinear, Operand, Operand]
    if transposed:
        by_input = (Conv(window), grad, weight)
        by_weight = (ConvGradWeight(window, shape), grad, x)
    else:
        sizes = tuple(x.shape)  # type: ignore[union-attr]
        by_input = (ConvGradInput(window, sizes), weight, grad)
        by_weight = (ConvGradWeight(window, shape), x, grad)
    calls = [call for call, want in zip((by_input, by_weight), wanted, strict=True) if want]
    made = iter(bilinears(n, calls))
    return [next(made) if want else None for want in wanted]
