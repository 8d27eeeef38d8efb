"""Maxima, minima, their places, and sorting. r is the rounds of a comparison."""

from __future__ import annotations

import torch

from .arithmetic import as_number, neg
from .format import Format, cap
from .reduce import Dims, all_, any_, flattened, reduced_shape
from .value import Value, convert, public, settled


def amax(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """Returns the largest element over dimensions, by a tournament (protocols/derived/order.py)."""
    if x.is_bit:
        return any_(n, x, dims, keepdim=keepdim)
    shape = reduced_shape(x, dims, keepdim=keepdim)
    largest = n.protocol.max(cap(n, flattened(x, dims).arith), -1, radix=None)
    return Value(largest, x.dtype).map(lambda part: part.reshape(shape))


def amin(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """Returns the smallest element over dimensions. Costs what `amax` costs."""
    if x.is_bit:
        return all_(n, x, dims, keepdim=keepdim)
    return neg(n, amax(n, neg(n, x), dims, keepdim=keepdim))


def max_with_index(
    n: Format, x: Value, dim: int | None, *, keepdim: bool = False
) -> tuple[Value, Value]:
    """Returns the largest element along `dim`, or of all, and its place: the first of equals."""
    number = as_number(n, x)
    shape = reduced_shape(x, dim, keepdim=keepdim)
    largest, place = n.protocol.max_with_index(cap(n, flattened(number, dim).arith), -1, radix=None)
    values = Value(largest, number.dtype), Value(place, torch.int64)
    value, index = (one.map(lambda part: part.reshape(shape)) for one in values)
    return convert(n, value, x.dtype), index


def min_with_index(
    n: Format, x: Value, dim: int | None, *, keepdim: bool = False
) -> tuple[Value, Value]:
    """Returns the smallest element along `dim`, or of all, and its place: the first of equals."""
    value, index = max_with_index(n, neg(n, x), dim, keepdim=keepdim)
    return convert(n, neg(n, value), x.dtype), index


def sort(
    n: Format, x: Value, dim: int = -1, *, descending: bool = False, k: int | None = None
) -> tuple[Value, Value]:
    """Returns the first k values in order along `dim`, all by default, and their places. Stable.

    The keys are x 2^t + place, with t bits for the place. They are all different, which decides
    ties, and a key less x 2^t is the place. About (log2 size)^2 / 2 comparisons in sequence, each
    t bits longer than one of x.
    """
    number = settled(n, as_number(n, x))
    if not number.shape:
        return x, public(n, torch.zeros((), dtype=torch.int64))
    p, size = n.protocol, number.shape[dim]
    share = cap(n, number.arith)
    bits = (size - 1).bit_length()
    behind = len(x.shape) - 1 - dim % len(x.shape)
    places = torch.arange(size, dtype=p.ring.dtype).view(-1, *[1] * behind)
    key = p.add_public(share.scaled(1 << bits), -places if descending else places)
    ordered, values = p.sort_by(key, share, dim, k=size if k is None else k, descending=descending)
    shifted = values.scaled(1 << bits)
    index = p.sub(shifted, ordered) if descending else p.sub(ordered, shifted)
    found = convert(n, Value(values, number.dtype), x.dtype)
    return found, Value(index.promise(size), torch.int64)


def sort_by(
    n: Format, key: Value, x: Value, dim: int = -1, *, descending: bool = False
) -> tuple[Value, Value]:
    """Returns the keys in order along `dim`, and the elements of x that stand beside them.

    Equal keys come in any order. Costs what `sort` costs without bits for the places.
    """
    number, moved = settled(n, as_number(n, key)), settled(n, as_number(n, x))
    if not number.shape:
        return key, x
    keys, columns = n.protocol.sort_by(
        cap(n, number.arith), moved.arith, dim, k=number.shape[dim], descending=descending
    )
    ordered, beside = Value(keys, number.dtype), Value(columns, moved.dtype)
    return convert(n, ordered, key.dtype), convert(n, beside, x.dtype)


def kth_smallest(
    n: Format, x: Value, k: int, dim: int, *, keepdim: bool = False
) -> tuple[Value, Value]:
    """Returns the k-th smallest value along `dim`, counted from 1, and its place."""
    if not x.shape:
        return x, public(n, torch.zeros((), dtype=torch.int64))
    values, places = sort(n, x, dim, k=k)
    value, place = (one.map(lambda part: part.narrow(dim, k - 1, 1)) for one in (values, places))
    if keepdim:
        return value, place
    return value.map(lambda part: part.squeeze(dim)), place.map(lambda part: part.squeeze(dim))
