"""Reductions over dimensions: sums, means, products, variances, any and all."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from math import prod as product_of

import torch

from ..errors import RangeError
from ..protocols.derived.piecewise import quotient_limit
from .arithmetic import as_number, mul, square, sub, sum_
from .compare import equal
from .encoding import SIGNIFICANT
from .format import Format, cap
from .logic import logical_not
from .long_sum import long_sum, spare_terms
from .value import Value, addable, combined, convert, public, settled

Dims = Sequence[int] | int | None


def dims_of(x: Value, dims: Dims) -> tuple[int, ...]:
    """Returns the dimensions counted from the front; None and an empty list mean all of them."""
    count = len(x.shape)
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return tuple(range(count))
    listed = (dims,) if isinstance(dims, int) else dims
    return tuple(dim % max(count, 1) for dim in listed) if count else ()


def total(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """Returns the sum over dimensions, within the range. Local for numbers, 1 round for bits."""
    x = convert(n, x, torch.int64) if not x.is_real else x
    chosen = dims_of(x, dims)
    if not chosen:
        return x
    return Value(cap(n, sum_(n, x, chosen, keepdim=keepdim).arith), x.dtype)


def mean(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """Returns the mean over dimensions. Local; its division is pending."""
    return _divided_sum(n, x, dims, _count(x, dims), keepdim=keepdim)


def _count(x: Value, dims: Dims) -> int:
    return product_of(x.shape[dim] for dim in dims_of(x, dims))


def _divided_sum(n: Format, x: Value, dims: Dims, divisor: float, *, keepdim: bool) -> Value:
    """Returns the sum over dimensions divided by a divisor close to the number of terms.

    A mean is no larger than its largest term, even if the sum leaves the range.
    """
    if divisor <= 0:
        raise RangeError(
            "the mean or variance of too few values is not a number",
            limit="more values than the correction",
        )
    if not x.is_real:
        return mul(n, total(n, x, dims, keepdim=keepdim), 1.0 / divisor)
    quotient = _times_inverse(n, _long_total(n, x, dims, keepdim=keepdim), divisor, _count(x, dims))
    most = ceil(_count(x, dims) / divisor) * (quotient_limit(x.arith) + 1)
    limit = most << quotient.arith.pending
    return Value(
        cap(n, quotient.arith.with_parts(quotient.arith.parts, limit=limit)), quotient.dtype
    )


def _long_total(n: Format, x: Value, dims: Dims, *, keepdim: bool) -> Value:
    """Returns the sum over dimensions, which may leave the range; its limit does not say so."""
    chosen = dims_of(x, dims)
    if not chosen:
        return x
    share = addable(n, x.arith)
    found = long_sum(n, share, chosen, fraction_bits=n.fraction_bits, keepdim=keepdim)
    return Value(cap(n, found), x.dtype)


def _times_inverse(n: Format, x: Value, divisor: float, count: int) -> Value:
    """Returns x / divisor, where x is the sum of `count` terms.

    If the sum has no room for a factor with enough bits, most of the division is made first.
    """
    power = count.bit_length() - 1
    if not x.arith.pending and spare_terms(n, n.fraction_bits) < power + SIGNIFICANT:
        x = Value(cap(n, n.protocol.settled(x.arith.divided(power))), x.dtype)
        divisor /= 1 << power
    return mul(n, x, 1.0 / divisor)


def flattened(x: Value, dims: Dims) -> Value:
    """Returns x with these dimensions flattened into one, which comes last."""
    chosen = dims_of(x, dims)
    rest = [dim for dim in range(len(x.shape)) if dim not in chosen]
    shape, size = [x.shape[dim] for dim in rest], product_of(x.shape[dim] for dim in chosen)
    return x.map(lambda part: part.permute([*rest, *chosen]).reshape(*shape, size))


def reduced_shape(x: Value, dims: Dims, *, keepdim: bool) -> list[int]:
    """Returns the shape of a reduction of x over these dimensions."""
    chosen = dims_of(x, dims)
    if keepdim:
        return [1 if dim in chosen else size for dim, size in enumerate(x.shape)]
    return [size for dim, size in enumerate(x.shape) if dim not in chosen]


def prod(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """Returns the product over dimensions, as a tree: ceil(log2 count) products in sequence."""
    x = as_number(n, x)
    shape = reduced_shape(x, dims, keepdim=keepdim)
    left = flattened(x, dims)
    if not left.shape[-1]:
        return public(n, torch.ones(shape, dtype=x.dtype))
    while (size := left.shape[-1]) > 1:
        half = size // 2
        pairs = mul(n, _narrow(left, 0, half), _narrow(left, half, half))
        tail = [_narrow(left, 2 * half, 1)] if size % 2 else []
        left = combined(n, [pairs, *tail], lambda parts: torch.cat(parts, -1))
    return left.map(lambda part: part.reshape(shape))


def cumprod(n: Format, x: Value, dim: int) -> Value:
    """Returns the products of the first 1, 2, 3, ... elements along `dim`.

    A parallel prefix: ceil(log2 size) products in sequence.
    """
    x = as_number(n, x)
    if not x.shape:
        return x
    done = x.map(lambda part: part.transpose(dim, -1))
    size, step = done.shape[-1], 1
    while step < size:
        later = mul(n, _narrow(done, step, size - step), _narrow(done, 0, size - step))
        done = combined(n, [_narrow(done, 0, step), later], lambda parts: torch.cat(parts, -1))
        step *= 2
    return done.map(lambda part: part.transpose(dim, -1))


def _narrow(x: Value, start: int, length: int) -> Value:
    return x.map(lambda part: part.narrow(-1, start, length))


def variance(
    n: Format, x: Value, dims: Dims = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Value, Value]:
    """Returns the variance and the mean over dimensions. One product of secrets."""
    average = settled(n, mean(n, x, dims, keepdim=True))
    squares = square(n, settled(n, sub(n, x, average)))
    result = _divided_sum(n, squares, dims, _count(x, dims) - correction, keepdim=keepdim)
    shape = reduced_shape(x, dims, keepdim=keepdim)
    return result, average.map(lambda part: part.reshape(shape))


def count_nonzero(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """Returns how many elements are not zero."""
    return total(n, convert(n, x, torch.bool), dims, keepdim=keepdim)


def any_(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """Returns whether some element is not zero.

    Compares their number with 0: 1 round, and an `is_zero` of few bits.
    """
    return logical_not(n, equal(n, count_nonzero(n, x, dims, keepdim=keepdim), 0))


def all_(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """Returns whether no element is zero, from the number of zeros. Rounds as `any_`."""
    zeros = total(n, logical_not(n, x), dims, keepdim=keepdim)
    return equal(n, zeros, 0)
