"""Elements written at public places, and read or written at secret places.

A secret place is a row of bits that are 1 at the place; reading and writing are products with such
rows. A place outside its range matches nothing: it reads 0 and writes nothing, and raises no error.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..kernels import pack_bits, unpack_bits
from ..protocols import Arith, Bool
from .arithmetic import add, cumsum, matmul, mul, sum_
from .compare import equal, where
from .extended.fine_gradients import FineGradient, is_fine
from .format import Format
from .logic import logical_and, logical_not
from .lookup import Array, array, mapped, one_hot, one_hot_numbers, take_rows
from .value import Operand, Value, aligned, convert, operand


def _dim_last(x: Array, dim: int, like: Value) -> Array:
    """Returns x with `dim` last, and its other dimensions cut to the sizes of `like`."""
    cuts = [slice(None) if d == dim else slice(size) for d, size in enumerate(like.shape)]
    return mapped(x, lambda part: part[tuple(cuts)].movedim(dim, -1))


def gather(n: Format, x: Operand, dim: int, index: Value) -> Value:
    """Returns `torch.gather` with secret places along `dim`, by a product with one-hot rows."""
    x = array(x)
    if not index.shape:
        return take_rows(n, mapped(x, torch.atleast_1d), index)
    dim %= len(index.shape)
    source = _dim_last(x, dim, index)
    marks = one_hot_numbers(n, _places(index, dim), source.shape[-1])
    found = matmul(n, marks, mapped(source, lambda part: part.unsqueeze(-1)))
    return found.map(lambda part: part.squeeze(-1).movedim(-1, dim))


def scatter_add(n: Format, x: Operand, dim: int, index: Value, source: Operand) -> Value:
    """Returns `torch.scatter_add` with secret places along `dim`; a product with one-hot rows."""
    if not index.shape:
        return _without_dims(scatter_add, n, x, index, source)
    dim %= len(index.shape)
    shape = operand(n, x).shape
    marks = one_hot_numbers(n, _places(index, dim), shape[dim])
    return add(n, x, _padded(_written(n, marks, source, index, dim), shape, dim))


def scatter(n: Format, x: Operand, dim: int, index: Value, source: Operand) -> Value:
    """Returns `torch.scatter` with secret places along `dim`. The last write to a place counts."""
    if not index.shape:
        return _without_dims(scatter, n, x, index, source)
    dim %= len(index.shape)
    shape = operand(n, x).shape
    bits = one_hot(n, _places(index, dim), shape[dim])
    if index.shape[dim] > 1:
        later = convert(n, bits, torch.int64).map(lambda part: part.flip(-2))
        count = cumsum(n, later, -2).map(lambda part: part.flip(-2))
        bits = logical_and(n, bits, equal(n, count, 1))
    marks = convert(n, bits, torch.int64)
    hit = _padded(sum_(n, marks, (-2,)), shape, dim)
    written = _padded(_written(n, marks, source, index, dim), shape, dim)
    missed = logical_not(n, Value(hit.arith.promise(1), torch.int64))
    return add(n, where(n, missed, x, 0), written)


def _without_dims(
    place: Callable[..., Value], n: Format, x: Operand, index: Value, source: Operand
) -> Value:
    """Returns the result of `scatter` for operands without dimensions."""
    wide = [mapped(array(one), torch.atleast_1d) for one in (x, index, source)]
    return place(n, wide[0], 0, wide[1], wide[2]).map(lambda part: part.reshape(()))


def _places(index: Value, dim: int) -> Value:
    return index.map(lambda part: part.movedim(dim, -1))


def _written(n: Format, marks: Value, source: Operand, index: Value, dim: int) -> Value:
    """Returns for each place the sum of the elements written there; `dim` is last."""
    if not isinstance(source, Value | Tensor):
        return mul(n, sum_(n, marks, (-2,)), source)
    cuts = tuple(slice(size) for size in index.shape)
    row = mapped(source, lambda part: part[cuts].movedim(dim, -1).unsqueeze(-2))
    return matmul(n, row, marks).map(lambda part: part.squeeze(-2))


def _padded(x: Value, shape: torch.Size, dim: int) -> Value:
    """Returns x with its last dimension moved to `dim`, padded with zeros to `shape`."""
    x = x.map(lambda part: part.movedim(-1, dim))
    missing = [end for d in range(len(shape))[::-1] for end in (0, shape[d] - x.shape[d])]
    return x.map(lambda part: torch.nn.functional.pad(part, missing)) if any(missing) else x


def replace(n: Format, whole: Value, take: Callable[[Value], Value], value: Value) -> Value:
    """Returns `whole` with the elements that `take` selects replaced by `value`. Local.

    `take` returns a view; the new elements are written through the view of a copy. `value` has the
    dtype of `whole`. Gradients keep their extra bits if both have them.
    """
    if is_fine(whole) and is_fine(value):
        return FineGradient(n, replace(n, whole.raw, take, value.raw))
    if isinstance(whole.share, Bool):
        return _replace_bits(n, whole.share, take, value.bits)
    share, new = aligned(n, [whole.arith, value.arith])
    parts = {
        i: part.clone(memory_format=torch.contiguous_format) for i, part in share.parts.items()
    }
    copy = Value(share.with_parts(parts, limit=max(share.limit, new.limit)), whole.dtype)
    for i, part in take(copy).arith.parts.items():
        part.copy_(new.parts[i])
    return copy


def _replace_bits(n: Format, whole: Bool, take: Callable[[Value], Value], value: Bool) -> Value:
    """Returns the same for bits, which are unpacked so that a view of them can be written."""
    parts = {i: unpack_bits(part[0], whole.shape, torch.uint8) for i, part in whole.parts.items()}
    view = take(Value(Arith(parts, n.ring), torch.int64)).arith
    for i, part in view.parts.items():
        part.copy_(unpack_bits(value.parts[i][0], value.shape, torch.uint8))
    packed = {i: pack_bits(part).unsqueeze(0) for i, part in parts.items()}
    return Value(Bool(packed, whole.shape), torch.bool)
