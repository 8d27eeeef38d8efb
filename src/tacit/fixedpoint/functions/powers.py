"""Powers: by squaring, roots, or as e^(y ln x)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...errors import RangeError
from ...ring.deterministic import logarithm as logarithm_of_public
from ..value import Operand, Value
from .exponential import exponential
from .quotient import reciprocal
from .roots import inverse_square_root, logarithm, square_root
from .steps import real

if TYPE_CHECKING:
    from ..numbers import Numbers

# A whole exponent up to this is a chain of squarings, more accurate than a logarithm.
MOST_SQUARED = 64


def power(n: Numbers, x: Operand, exponent: Operand) -> Value:
    """x^exponent.

    Whole and half exponents that are public take any x for which they are defined; others, and
    secret ones, take x > 0, where what is not positive counts as 2^-f. A public base is positive.
    """
    if not isinstance(x, Value):
        return _of_public(n, torch.as_tensor(x), real(n, exponent))
    if isinstance(exponent, Value):
        return exponential(n, n.mul(n.settled(logarithm(n, x)), real(n, exponent)))
    plain = torch.as_tensor(exponent)
    dtype = n.result_dtype(x, exponent)
    values = plain.unique()
    if values.numel() == 1:
        shape = torch.broadcast_shapes(x.shape, plain.shape)
        made = n.convert(_uniform(n, x, values.item()), dtype)
        return made if made.shape == shape else made.map(lambda part: part.expand(shape))
    return n.convert(_mixed(n, real(n, x), plain), dtype)


def _of_public(n: Numbers, base: Tensor, exponent: Value) -> Value:
    if not bool((base > 0).all()):
        raise RangeError("pow: a public base of a secret exponent has to be positive")
    return exponential(n, n.mul(exponent, logarithm_of_public(base.double())))


def _uniform(n: Numbers, x: Value, exponent: float) -> Value:
    """x^exponent for one public exponent."""
    twice = 2 * exponent
    if not float(twice).is_integer() or abs(exponent) > MOST_SQUARED:
        return exponential(n, n.mul(logarithm(n, x), exponent))
    if exponent < 0:
        return _inverse(n, real(n, x), -exponent)
    whole, half = divmod(int(twice), 2)
    if not half:
        return _squared(n, x, whole)
    root = square_root(n, x)
    return n.mul(_squared(n, real(n, x), whole), root) if whole else root


def _inverse(n: Numbers, x: Value, exponent: float) -> Value:
    """x^-exponent. Powers of the inverse: those of x may be too small or too large to invert."""
    whole, half = divmod(int(2 * exponent), 2)
    if half:
        root = inverse_square_root(n, x)
        return _squared(n, n.settled(root), int(2 * exponent))
    return _squared(n, n.settled(reciprocal(n, x)), whole)


def _squared(n: Numbers, x: Value, exponent: int) -> Value:
    """x^exponent for a whole one: a product for each bit, and for each bit that is one."""
    if exponent == 0:
        return n.add(n.mul(x, 0), 1)
    result: Value | None = None
    while True:
        if exponent & 1:
            result = x if result is None else n.mul(result, x)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        x = n.square(x)


def _mixed(n: Numbers, x: Value, exponent: Tensor) -> Value:
    """|x|^exponent, with the sign of x where the exponent is odd."""
    x = n.settled(x)
    size = exponential(n, n.mul(logarithm(n, n.absolute(x)), exponent))
    odd = (exponent.double() % 2 == 1).to(torch.int64)
    if not bool(odd.any()):
        return size
    negative = n.convert(n.less(x, 0), torch.int64)
    return n.mul(size, n.sub(1, n.mul(negative, 2 * odd)))
