"""Matrix products, convolutions and other contractions of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ..protocols import MATMUL, Bilinear
from .arithmetic import convert
from .dtypes import result_dtype
from .encoding import cap, encode, public_bits, room
from .value import Operand, Value

if TYPE_CHECKING:
    from .numbers import Numbers


def bilinear(n: Numbers, op: Bilinear, a: Operand, b: Operand) -> Value:
    """op(a, b); products of two reals are divided later."""
    dtype = result_dtype(a, b)
    if isinstance(a, Value) and isinstance(b, Value):
        a, b = _number(n, a), _number(n, b)
        shift = n.fraction_bits if a.is_real and b.is_real else 0
        return Value(cap(n, n.protocol.bilinear(op, a.arith, b.arith, shift=shift)), dtype)
    left = isinstance(a, Value)
    secret, public = (a, b) if left else (b, a)
    assert isinstance(secret, Value)
    factor = torch.as_tensor(public)
    x = _number(n, secret).arith
    shapes = (x.shape, factor.shape) if left else (factor.shape, x.shape)
    grown = op.terms(*shapes).bit_length()
    if room(n, x) < n.fraction_bits + grown:
        x = cap(n, n.protocol.settled(x))
    bits = public_bits(n, x, factor, grown)
    product = n.protocol.bilinear_public(op, x, encode(n, factor, bits), left=left)
    if not secret.is_real and dtype.is_floating_point:
        product = product.scaled(1 << n.fraction_bits)
    return Value(cap(n, product.divided(bits)), dtype)


def bilinears(n: Numbers, calls: Sequence[tuple[Bilinear, Operand, Operand]]) -> list[Value]:
    """op(a, b) for each call; those of two secrets share their rounds."""
    if not all(isinstance(x, Value) for _, a, b in calls for x in (a, b)):
        return [bilinear(n, op, a, b) for op, a, b in calls]
    ready = [(op, _number(n, a), _number(n, b)) for op, a, b in calls]  # type: ignore[arg-type]
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


def matmul(n: Numbers, a: Operand, b: Operand) -> Value:
    """The matrix product, as `torch.matmul`."""
    return bilinear(n, MATMUL, a, b)


def _number(n: Numbers, x: Value) -> Value:
    return convert(n, x, torch.int64) if x.is_bit else x
