"""How operations of torch are cut into pieces where they do not fit into an enclave's memory.

What is in no table here is refused then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..fixedpoint import PlainNumbers, Value
from ..protocols.plain_pieces import has_rows
from . import plain_batch_norm

aten = torch.ops.aten

WHOLE = ("weight", "bias")  # arguments that all rows have in common
# Each row of the result depends on that row of the operands alone.
ROWS = {
    *(aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default),
    *(aten.avg_pool2d.default, aten.avg_pool2d_backward.default),
    *(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool2d_backward.default),
    *(aten.upsample_nearest2d.vec, aten.upsample_bilinear2d.vec),
    *(aten.native_group_norm.default, aten.log_sigmoid_forward.default),
    aten._to_copy.default,
}
# The same, unless the dimension that they work along is the first.
ALONG = {
    aten._softmax.default: "dim",
    aten._log_softmax.default: "dim",
    aten._softmax_backward_data.default: "dim",
    aten._log_softmax_backward_data.default: "dim",
    aten.sum.dim_IntList: "dim",
    aten.mean.dim: "dim",
    aten.amax.default: "dim",
    aten.amin.default: "dim",
    aten.argmax.default: "dim",
    aten.max.dim: "dim",
    aten.min.dim: "dim",
}
SUMS = {aten.sum.default, aten.sum.dim_IntList}


def new_empty_strided(
    n: PlainNumbers, self: Value, size: Sequence[int], stride: Sequence[int], **options: Any
) -> Value:
    """A tensor whose elements are written next; nothing of `self` is read."""
    dtype = options.get("dtype") or self.dtype
    return n.value(n.protocol.new_tensor("new_empty_strided", torch.Size(size), dtype))


def copy(n: PlainNumbers, self: Value, src: Value, non_blocking: bool = False) -> Value:
    """The elements of `src` in the shape and dtype of `self`, of which nothing is read."""

    def copied(x: Tensor) -> Tensor:
        return x.to(self.dtype, memory_format=torch.contiguous_format, copy=True)

    source = n.operand(src).map(lambda part: part.expand(self.shape))
    return n.by_rows(has_rows(self.shape), "copy", copied, source)


OWN: dict[OpOverload, Callable[..., Any]] = {
    **plain_batch_norm.RULES,
    aten.new_empty_strided.default: new_empty_strided,
    aten.copy.default: copy,
}


def in_pieces(func: OpOverload, n: PlainNumbers, *args: Any, **kwargs: Any) -> Any:
    """Returns torch's result as values, piece by piece; None if there is no way to cut it."""
    if func in OWN:
        return OWN[func](n, *args, **kwargs)
    given = named_arguments(func, args, kwargs)
    operands = [
        x for name, x in given.items() if name not in WHOLE and isinstance(x, Value | Tensor)
    ]
    rank = max((len(x.shape) for x in operands), default=0)
    if torch.Tag.pointwise in func.tags:
        cut = has_rows(torch.broadcast_shapes(*(x.shape for x in operands)))
        return n.by_rows(cut, str(func), func, *args, **kwargs)
    along = given.get(ALONG[func]) if func in ALONG else ()
    rows = operands[0].shape[0] if operands and rank else 0
    cut = partial(is_one_of, [n.tensor(x) for x in operands if len(x.shape) and x.shape[0] == rows])
    if func in ROWS or (func in ALONG and not _has_first(along, rank)):
        return n.by_rows(cut, str(func), func, *args, **kwargs)
    if func in SUMS and not given.get("keepdim") and rank:
        return n.summed(cut, str(func), func, *args, **kwargs)
    return None


def named_arguments(
    func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Returns the arguments of a call by their names."""
    names = [argument.name for argument in func._schema.arguments]
    return dict(zip(names, args, strict=False)) | kwargs


def is_one_of(tensors: Sequence[Tensor], x: Tensor) -> bool:
    return any(x is one for one in tensors)


def _has_first(dims: Any, rank: int) -> bool:
    """Whether an operation along these dimensions, None for all, joins rows."""
    if dims is None or not rank:
        return True
    return any(
        dim % rank == 0 for dim in ([dims] if isinstance(dims, int) else dims or range(rank))
    )
