"""Powers: by repeated squaring, by roots, or as e^(y ln x)."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import RangeError
from ...ring.deterministic import logarithm as logarithm_of_public
from ..arithmetic import add, mul, square, sub
from ..compare import absolute, less
from ..format import Format
from ..value import Operand, Value, convert, real, result_dtype, settled
from .exponential import exponential
from .quotient import reciprocal
from .roots import inverse_square_root, logarithm, square_root

# Integer exponents up to this are chains of squarings, which are more accurate than a logarithm.
MOST_SQUARED = 64


def power(n: Format, x: Operand, exponent: Operand) -> Value:
    """Returns x^exponent.

    Public exponents that are multiples of 1/2 take every x for which the power is defined. Other
    exponents need x > 0; x <= 0 counts as 2^-f. A public base must be positive. Relative error of
    e^(y ln x): that of `exponential`, and |y| times the error of the logarithm.
    """
    if not isinstance(x, Value):
        return _of_public(n, torch.as_tensor(x), real(n, exponent))
    if isinstance(exponent, Value):
        return exponential(n, mul(n, settled(n, logarithm(n, x)), real(n, exponent)))
    plain = torch.as_tensor(exponent)
    dtype = result_dtype(x, exponent)
    values = plain.unique()
    if x.dtype is torch.bool:
        x = convert(n, x, torch.int64)
    if values.numel() == 1:
        shape = torch.broadcast_shapes(x.shape, plain.shape)
        made = convert(n, _uniform(n, x, values.item()), dtype)
        return made if made.shape == shape else made.map(lambda part: part.expand(shape))
    return convert(n, _mixed(n, real(n, x), plain), dtype)


def _of_public(n: Format, base: Tensor, exponent: Value) -> Value:
    if not bool((base > 0).all()):
        raise RangeError(
            "pow: the public base of a secret exponent is not positive", limit="bases above 0"
        )
    return exponential(n, mul(n, exponent, logarithm_of_public(base.double())))


def _uniform(n: Format, x: Value, exponent: float) -> Value:
    """Returns x^exponent for one public exponent."""
    twice = 2 * exponent
    if not float(twice).is_integer() or abs(exponent) > MOST_SQUARED:
        return exponential(n, mul(n, logarithm(n, x), exponent))
    if exponent < 0:
        return _inverse(n, real(n, x), -exponent)
    whole, half = divmod(int(twice), 2)
    if not half:
        return _squared(n, x, whole)
    root = square_root(n, x)
    return mul(n, _squared(n, real(n, x), whole), root) if whole else root


def _inverse(n: Format, x: Value, exponent: float) -> Value:
    """Returns x^-exponent as a power of 1/x: a power of x may be too small or too large."""
    whole, half = divmod(int(2 * exponent), 2)
    if half:
        root = inverse_square_root(n, x)
        return _squared(n, settled(n, root), int(2 * exponent))
    return _squared(n, settled(n, reciprocal(n, x)), whole)


def _squared(n: Format, x: Value, exponent: int) -> Value:
    """Returns x^exponent for an integer: a square per bit, a product per bit that is 1."""
    if exponent == 0:
        return add(n, mul(n, x, 0), 1)
    result: Value | None = None
    while True:
        if exponent & 1:
            result = x if result is None else mul(n, result, x)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        x = square(n, x)


def _mixed(n: Format, x: Value, exponent: Tensor) -> Value:
    """Returns x^exponent for several public exponents: |x|^exponent, negated if x < 0 and odd."""
    x = settled(n, x)
    size = exponential(n, mul(n, logarithm(n, absolute(n, x)), exponent))
    odd = (exponent.double() % 2 == 1).to(torch.int64)
    if not bool(odd.any()):
        return size
    negative = convert(n, less(n, x, 0), torch.int64)
    return mul(n, size, sub(n, 1, mul(n, negative, 2 * odd)))
