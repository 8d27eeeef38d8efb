"""Elements at secret places: by bits that are 1 where the place is, and products with them.

A place outside its range matches nothing: it reads 0 and writes nothing, and nobody is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .arithmetic import add, convert, mul
from .compare import equal, logical_and, logical_not, where
from .value import Operand, Value

if TYPE_CHECKING:
    from .numbers import Numbers


Array = Value | Tensor


def one_hot(n: Numbers, index: Value, size: int, *, wraps: bool = False) -> Value:
    """Bits of shape (*index.shape, size): 1 at the place. One narrow `is_zero` of each.

    With `wraps`, places count from the end where they are negative, at twice the cost.
    """
    limit = 2 * size
    share = index.arith.promise(limit << index.arith.pending).unsqueeze(len(index.shape))
    column = Value(share, index.dtype)
    places = torch.arange(size)
    bits = equal(n, column, places)
    return n.logical_xor(bits, equal(n, column, places - size)) if wraps else bits


def _marks(n: Numbers, index: Value, size: int, *, wraps: bool = False) -> Value:
    """The same as numbers."""
    return convert(n, one_hot(n, index, size, wraps=wraps), torch.int64)


def rows(n: Numbers, table: Operand, index: Value, *, wraps: bool = False) -> Value:
    """table[index], for whole rows of the table: a product with one-hot rows."""
    table = _array(table)
    count, rest = table.shape[0], table.shape[1:]
    marks = _marks(n, index, count, wraps=wraps).map(lambda part: part.reshape(-1, count))
    found = n.matmul(marks, _changed(table, lambda part: part.reshape(count, rest.numel())))
    return found.map(lambda part: part.reshape(*index.shape, *rest))


def rows_back(n: Numbers, grad: Operand, index: Value, count: int, *, wraps: bool = False) -> Value:
    """The gradient of `rows` by its table of `count` rows: for each row a sum."""
    grad = _array(grad)
    rest, number = grad.shape[len(index.shape) :], index.share.numel
    marks = _marks(n, index, count, wraps=wraps).map(lambda part: part.reshape(-1, count).t())
    total = n.matmul(marks, _changed(grad, lambda part: part.reshape(number, rest.numel())))
    return total.map(lambda part: part.reshape(count, *rest))


def _array(x: Operand) -> Array:
    return x if isinstance(x, Value) else torch.as_tensor(x)


def _changed(x: Array, change: Callable[[Tensor], Tensor]) -> Array:
    return x.map(change) if isinstance(x, Value) else change(x)


def _last(x: Array, dim: int, like: Value) -> Array:
    """x with `dim` at the end; its other dimensions are cut to the sizes of `like`."""
    cuts = [slice(None) if d == dim else slice(size) for d, size in enumerate(like.shape)]
    return _changed(x, lambda part: part[tuple(cuts)].movedim(dim, -1))


def gather(n: Numbers, x: Operand, dim: int, index: Value) -> Value:
    """`torch.gather` with secret places along `dim`: a product with one-hot rows."""
    x = _array(x)
    if not index.shape:
        return rows(n, _changed(x, torch.atleast_1d), index)
    dim %= len(index.shape)
    source = _last(x, dim, index)
    marks = _marks(n, _places(index, dim), source.shape[-1])
    found = n.matmul(marks, _changed(source, lambda part: part.unsqueeze(-1)))
    return found.map(lambda part: part.squeeze(-1).movedim(-1, dim))


def scatter_add(n: Numbers, x: Operand, dim: int, index: Value, source: Operand) -> Value:
    """`torch.scatter_add` with secret places along `dim`: a product with one-hot rows."""
    if not index.shape:
        return _without_dims(scatter_add, n, x, index, source)
    dim %= len(index.shape)
    shape = n.operand(x).shape
    marks = _marks(n, _places(index, dim), shape[dim])
    return add(n, x, _grown(_landed(n, marks, source, index, dim), shape, dim))


def scatter(n: Numbers, x: Operand, dim: int, index: Value, source: Operand) -> Value:
    """`torch.scatter` with secret places along `dim`; of several for one place the last counts."""
    if not index.shape:
        return _without_dims(scatter, n, x, index, source)
    dim %= len(index.shape)
    shape = n.operand(x).shape
    bits = one_hot(n, _places(index, dim), shape[dim])
    if index.shape[dim] > 1:
        later = convert(n, bits, torch.int64).map(lambda part: part.flip(-2))
        count = n.cumsum(later, -2).map(lambda part: part.flip(-2))
        bits = logical_and(n, bits, equal(n, count, 1))
    marks = convert(n, bits, torch.int64)
    hit = _grown(n.sum(marks, (-2,)), shape, dim)
    landed = _grown(_landed(n, marks, source, index, dim), shape, dim)
    missed = logical_not(n, Value(hit.arith.promise(1), torch.int64))
    return add(n, where(n, missed, x, 0), landed)


def _without_dims(
    place: Callable[..., Value], n: Numbers, x: Operand, index: Value, source: Operand
) -> Value:
    """The same for operands without dimensions."""
    wide = [_changed(_array(one), torch.atleast_1d) for one in (x, index, source)]
    return place(n, wide[0], 0, wide[1], wide[2]).map(lambda part: part.reshape(()))


def _places(index: Value, dim: int) -> Value:
    return index.map(lambda part: part.movedim(dim, -1))


def _landed(n: Numbers, marks: Value, source: Operand, index: Value, dim: int) -> Value:
    """For each place the sum of what is sent there; `dim` is the last of it."""
    if not isinstance(source, Value | Tensor):
        return mul(n, n.sum(marks, (-2,)), source)
    cuts = tuple(slice(size) for size in index.shape)
    row = _changed(source, lambda part: part[cuts].movedim(dim, -1).unsqueeze(-2))
    return n.matmul(row, marks).map(lambda part: part.squeeze(-2))


def _grown(x: Value, shape: torch.Size, dim: int) -> Value:
    """x with its last dimension back at `dim`, and zeros up to `shape`."""
    x = x.map(lambda part: part.movedim(-1, dim))
    missing = [end for d in range(len(shape))[::-1] for end in (0, shape[d] - x.shape[d])]
    return x.map(lambda part: torch.nn.functional.pad(part, missing)) if any(missing) else x
