"""Elementwise work on few integers: numpy's call takes a tenth of the time that torch's takes.

Both wrap around modulo 2^32 and 2^64. Long tensors stay with torch, which may use several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten
MOST_ELEMENTS = 1 << 15
INTEGERS = (torch.int32, torch.int64)

Call = tuple[Callable[..., Any], tuple[Any, ...]]

_BINARY = {
    aten.add.Tensor: np.add,
    aten.sub.Tensor: np.subtract,
    aten.mul.Tensor: np.multiply,
    aten.bitwise_xor.Tensor: np.bitwise_xor,
    aten.__xor__.Tensor: np.bitwise_xor,
    aten.bitwise_and.Tensor: np.bitwise_and,
    aten.__and__.Tensor: np.bitwise_and,
    aten.bitwise_or.Tensor: np.bitwise_or,
    aten.__or__.Tensor: np.bitwise_or,
}
_SHIFTS = {aten.__rshift__.Scalar: np.right_shift, aten.__lshift__.Scalar: np.left_shift}
_UNARY = {aten.neg.default: np.negative, aten.bitwise_not.default: np.bitwise_not}
_IN_PLACE = {
    aten.add_.Tensor: np.add,
    aten.sub_.Tensor: np.subtract,
    aten.mul_.Tensor: np.multiply,
    aten.bitwise_xor_.Tensor: np.bitwise_xor,
}


def small_work(func: OpOverload, args: Sequence[Any], kwargs: Any, place: Tensor) -> Call | None:
    """Returns a call of numpy that writes to `place` what torch's operation does, if there is one.

    place: the result, or for an operation in place the tensor that it writes to.
    """
    if place.numel() > MOST_ELEMENTS or not _is_integer(place):
        return None
    if func is aten.sum.dim_IntList and kwargs == {"dtype": place.dtype}:
        return _sum_of_pairs(args, place)
    if kwargs:
        return None
    out = place.numpy()
    if func is aten.cat.default:
        return _joined(args, place)
    if func is aten.sum.dim_IntList:
        return _sum_of_pairs(args, place) or _summed(args, place)
    if func is aten.clone.default or func is aten.copy_.default:
        source = args[-1] if func is aten.copy_.default else args[0]
        return (np.copyto, (out, source.numpy())) if _fits(source, place) else None
    operands = [x.numpy() if isinstance(x, Tensor) else x for x in args]
    if not all(_fits(x, place) for x in args):
        return None
    if func in _BINARY or func in _SHIFTS or func in _IN_PLACE:
        made = (_BINARY | _SHIFTS | _IN_PLACE)[func]
        return (made, (*operands, out)) if len(args) == 2 else None
    if func in _UNARY:
        return _UNARY[func], (*operands, out)
    return None


def _joined(args: Sequence[Any], place: Tensor) -> Call | None:
    tensors, dim = args[0], args[1] if len(args) > 1 else 0
    if not all(_fits(x, place) and x.dim() == place.dim() for x in tensors):
        return None
    arrays = [x.numpy() for x in tensors]
    return partial(np.concatenate, arrays, axis=dim, out=place.numpy()), ()


def _summed(args: Sequence[Any], place: Tensor) -> Call | None:
    x, dims, *keep = args
    if not _fits(x, place) or not dims:
        return None
    options = {"axis": tuple(dims), "keepdims": bool(keep and keep[0]), "out": place.numpy()}
    return partial(np.sum, x.numpy(), **options), ()


def _sum_of_pairs(args: Sequence[Any], place: Tensor) -> Call | None:
    """The sum over one dim of two elements, as in pooling: numpy's and torch's sums are slow."""
    x, dims, *keep = args
    if not _fits(x, place) or len(dims) != 1 or x.shape[dims[0]] != 2:
        return None
    out = place.squeeze(dims[0]) if keep and keep[0] else place
    return np.add, (*(part.numpy() for part in x.unbind(dims[0])), out.numpy())


def _is_integer(x: Tensor) -> bool:
    return x.is_cpu and x.dtype in INTEGERS


def _fits(x: Any, place: Tensor) -> bool:
    """Whether an operand is of the result's type: a tensor, or a number that its type can hold."""
    if isinstance(x, Tensor):
        return _is_integer(x) and x.dtype == place.dtype
    limits = torch.iinfo(place.dtype)
    return isinstance(x, int) and not isinstance(x, bool) and limits.min <= x <= limits.max
