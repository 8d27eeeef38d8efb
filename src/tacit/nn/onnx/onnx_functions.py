"""What ONNX operators do that no single function of torch does; models from files call these.

Shapes and what is computed from them are integers, in public. All else may be secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C import DisableTorchFunction
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

Number = int | float | bool


def integers(x: Tensor) -> list[int]:
    """Returns public integers as a list."""
    return [int(value) for value in x.reshape(-1).tolist()]


def sizes(x: Tensor) -> list[int]:
    """Returns integers that follow from shapes and public constants alone.

    Observers of the program need not see that they are read: they cannot differ the next time.
    """
    with DisableTorchFunction(), _disable_current_modes():
        return integers(x)


def shape(x: Tensor, start: int, end: int | None) -> Tensor:
    """Returns a part of the shape as a tensor."""
    return torch.tensor(tuple(x.shape)[start:end], dtype=torch.int64)


def size(x: Tensor) -> Tensor:
    """Returns the number of elements as a tensor."""
    return torch.tensor(x.numel())


def reshape(x: Tensor, sizes: Sequence[int], allow_zero: bool) -> Tensor:
    """Returns x in another shape; a size of 0 is that of x unless zeros are allowed."""
    if not allow_zero:
        sizes = [x.shape[i] if one == 0 else one for i, one in enumerate(sizes)]
    return x.reshape(tuple(sizes))


def flatten(x: Tensor, axis: int) -> Tensor:
    """Returns the matrix of all dimensions before the axis by all others."""
    axis = axis + x.dim() if axis < 0 else axis
    rows = 1
    for one in x.shape[:axis]:
        rows *= one
    return x.reshape(rows, -1) if x.numel() else x.reshape(rows, 0)


def expand(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Returns x broadcast with a shape; x may be the larger one."""
    return x.expand(torch.broadcast_shapes(x.shape, tuple(sizes)))


def unsqueeze(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Returns x with dimensions of one at these axes of the result."""
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def full(sizes: Sequence[int], value: Number, dtype: torch.dtype) -> Tensor:
    return torch.full(tuple(sizes), value, dtype=dtype)


def divided(a: Any, b: Any) -> Any:
    """Returns a / b; of integers the part before the point."""
    if any(isinstance(x, Tensor) and x.is_floating_point() for x in (a, b)):
        return a / b
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return torch.div(torch.as_tensor(a), b, rounding_mode="trunc")


def smallest(*given: Any) -> Any:
    """Returns the elementwise minimum of tensors and numbers."""
    found = given[0]
    for one in given[1:]:
        a, b = (found, one) if isinstance(found, Tensor) else (one, found)
        found = torch.minimum(a, b) if isinstance(b, Tensor) else torch.clamp(a, max=b)
    return found


def largest(*given: Any) -> Any:
    """Returns the elementwise maximum of tensors and numbers."""
    found = given[0]
    for one in given[1:]:
        a, b = (found, one) if isinstance(found, Tensor) else (one, found)
        found = torch.maximum(a, b) if isinstance(b, Tensor) else torch.clamp(a, min=b)
    return found


def sliced(
    x: Tensor,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Tensor:
    """Returns part of x along some axes, as Python slices do; steps may be negative."""
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = (axes[i] if axes else i) % x.dim()
        places = range(x.shape[axis])[start : end if end > -(2**62) else None : _step(steps, i)]
        if places.step > 0:
            x = x[(slice(None),) * axis + (slice(places.start, places.stop, places.step),)]
        else:
            x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64, device=x.device))
    return x


def _step(steps: Sequence[int] | None, index: int) -> int:
    return steps[index] if steps else 1


def taken(x: Tensor, indices: Tensor | int, axis: int) -> Tensor:
    """Returns the entries of an axis at public indices, which may count from the end."""
    count = x.shape[axis]
    if isinstance(indices, int):
        return x.select(axis, indices)
    places = torch.where(indices < 0, indices + count, indices)
    axis = axis % x.dim()
    sizes = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, places.reshape(-1)).reshape(sizes)


def padded(
    x: Tensor, pads: Sequence[int], axes: Sequence[int] | None, mode: str, value: Any
) -> Tensor:
    """Returns x with pads: all before, then all after; negative ones cut."""
    chosen = [axis % x.dim() for axis in (range(x.dim()) if axes is None else axes)]
    before = dict(zip(chosen, pads[: len(chosen)], strict=True))
    after = dict(zip(chosen, pads[len(chosen) :], strict=True))
    ordered = [
        n for axis in reversed(range(x.dim())) for n in (before.get(axis, 0), after.get(axis, 0))
    ]
    if mode == "constant":
        return F.pad(x, ordered, value=value)
    while len(ordered) > 2 and ordered[-2:] == [0, 0]:
        ordered = ordered[:-2]
    return F.pad(x, ordered, mode=mode)


def padded_alike(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    lower: bool,
    mode: str,
) -> Tensor:
    """Returns x with pads after which a window gives one result for each stride (auto_pad)."""
    pads = []
    sizes = x.shape[2:]
    for one, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        steps = -(-one // stride) - 1
        total = max(steps * stride + dilation * (width - 1) + 1 - one, 0)
        small, large = total // 2, total - total // 2
        pads.append((large, small) if lower else (small, large))
    ordered = [n for pair in reversed(pads) for n in pair]
    return F.pad(x, ordered) if mode == "constant" else F.pad(x, ordered, mode=mode)


def softmax_from(x: Tensor, axis: int, logarithm: bool) -> Tensor:
    """Returns the softmax over all dimensions from an axis on, as before opset 13."""
    flat = flatten(x, axis)
    found = F.log_softmax(flat, 1) if logarithm else F.softmax(flat, 1)
    return found.reshape(x.shape)


def depth_to_space(x: Tensor, block: int, column_row_depth: bool) -> Tensor:
    """Returns channels moved to blocks of rows and columns."""
    n, c, h, w = x.shape
    if column_row_depth:
        return F.pixel_shuffle(x, block)
    parts = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // block**2, h * block, w * block)


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Returns blocks of rows and columns moved to channels."""
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // block, block, w // block, block).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * block**2, h // block, w // block)


def split_evenly(x: Tensor, parts: int, axis: int) -> Sequence[Tensor]:
    """Returns parts of equal size, the last one smaller if they cannot be equal."""
    return x.split(-(-x.shape[axis] // parts), axis)


def averaged(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    ceil_mode: bool,
) -> Tensor:
    """Returns averages over windows, of what lies inside of x, for pads that differ by side."""
    rank = len(kernel)
    pool: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
    axes = range(2, 2 + rank)
    inside = torch.ones((1, 1, *x.shape[2:]))
    sums, counts = (
        pool(padded(one, pads, axes, "constant", 0.0), kernel, strides, 0, ceil_mode, True)
        for one in (x, inside)
    )
    return sums * (1 / counts)


def reduced(x: Tensor, name: str, axes: Sequence[int] | None, keep: bool) -> Tensor:
    """Returns the sum, mean, extreme, product or norm over axes, or over all of them."""
    over = tuple(range(x.dim())) if axes is None else tuple(axes)
    if name == "prod":
        for axis in sorted((axis % x.dim() for axis in over), reverse=True):
            x = x.prod(axis, keepdim=keep)
        return x
    return _REDUCTIONS[name](x, over, keep) if over else x


_REDUCTIONS: dict[str, Any] = {
    "sum": lambda x, over, keep: x.sum(over, keepdim=keep),
    "mean": lambda x, over, keep: x.mean(over, keepdim=keep),
    "max": lambda x, over, keep: x.amax(over, keepdim=keep),
    "min": lambda x, over, keep: x.amin(over, keepdim=keep),
    "l1": lambda x, over, keep: x.abs().sum(over, keepdim=keep),
    "l2": lambda x, over, keep: (x * x).sum(over, keepdim=keep).sqrt(),
    "sum_square": lambda x, over, keep: (x * x).sum(over, keepdim=keep),
    "log_sum_exp": lambda x, over, keep: x.logsumexp(over, keepdim=keep),
}


def cumulated(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Returns sums of all entries up to each one of an axis."""
    x = x.flip(axis) if reverse else x
    found = x.cumsum(axis)
    found = found - x if exclusive else found
    return found.flip(axis) if reverse else found


def spatial(sizes: Sequence[int]) -> list[int]:
    """Returns all sizes but those of batch and channels."""
    return list(sizes[2:])


def counted(start: Any, limit: Any, step: Any) -> Tensor:
    """Returns the numbers from a start up to a limit."""
    given = [x.item() if isinstance(x, Tensor) else x for x in (start, limit, step)]
    return torch.arange(*given)


def counted_sizes(start: Any, limit: Any, step: Any) -> Tensor:
    """As `counted`, of numbers that follow from shapes and public constants alone."""
    given = [sizes(x)[0] if isinstance(x, Tensor) else x for x in (start, limit, step)]
    return torch.arange(*given)


def by_direction(rows: Tensor, directions: int) -> Tensor:
    """Returns steps x directions x batch x hidden of torch's steps x batch x all hidden."""
    return rows.unflatten(-1, (directions, -1)).transpose(1, 2)


OF_SIZES = {integers: sizes, counted: counted_sizes}
