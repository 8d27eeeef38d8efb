"""Pooling: maxima and sums of windows over the last dimensions of a value, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import ceil, prod

import torch
from torch import Tensor

from ..errors import UnsupportedOp
from .arithmetic import mul
from .format import Format
from .lazy import Deferred
from .value import Operand, Value, addable, settled

# Up to so many elements of windows, rounds count more than comparisons: windows are decided in
# fewer levels.
FEW_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class AxisWindows:
    """The pooling windows along one dimension of `size` elements.

    index: (windows, elements of a window), the places that each window reads. A place below 0 or
        from `size` on is padding.
    stride, dilation: of evenly spaced windows; 0 for others.

    NOTE [padding]: for a maximum, a place in the padding repeats the nearest element that its
    window has. The first of equals wins, so the winner is the same as without the repetition.
    """

    index: Tensor
    size: int
    stride: int = 0
    dilation: int = 0
    _copies: dict[tuple[str, torch.device, int], Tensor] = field(default_factory=dict, repr=False)
    _counts: dict[int, int | None] = field(default_factory=dict, repr=False)

    @cached_property
    def is_even(self) -> bool:
        """Whether the windows are evenly spaced and read no padding: then they are a view."""
        return bool(self.stride) and bool(self.valid.all())

    @cached_property
    def is_partition(self) -> bool:
        """Whether exactly one window reads each element, in order."""
        windows, length = self.index.shape
        even = self.is_even and self.dilation == 1 and self.stride == length
        return even and windows * length == self.size

    def on_device(self, name: str, device: torch.device) -> Tensor:
        """Returns `repeated` or `valid` on a device, copied once for each CUDA stream."""
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        key = (name, device, stream)
        if key not in self._copies:
            self._copies[key] = getattr(self, name).to(device)
        return self._copies[key]

    @cached_property
    def valid(self) -> Tensor:
        """Whether each place is an element, not padding."""
        return (self.index >= 0) & (self.index < self.size)

    @cached_property
    def repeated(self) -> Tensor:
        """The index, with places in the padding replaced as NOTE [padding] says."""
        if not self.valid.any(1).all():
            raise UnsupportedOp("a pooling window covers only padding", remedy="pad less")
        first = self.index.where(self.valid, self.size).amin(1, keepdim=True)
        last = self.index.where(self.valid, -1).amax(1, keepdim=True)
        return torch.minimum(torch.maximum(self.index, first), last)

    def counts(self, padding: int = 0) -> Tensor:
        """Returns how many places each window reads, this much padding on either side included."""
        return ((self.index >= -padding) & (self.index < self.size + padding)).sum(1)

    def equal_count(self, padding: int = 0) -> int | None:
        """Returns the count of all windows, or None if they differ; padding as in `counts`."""
        if padding not in self._counts:
            counts = self.counts(padding)
            same = counts.numel() > 0 and bool((counts == counts[0]).all())
            self._counts[padding] = int(counts[0]) if same else None
        return self._counts[padding]

    @cached_property
    def most_elements(self) -> int:
        """The largest number of elements that a window reads."""
        return int(self.counts().max())

    @cached_property
    def most_readers(self) -> int:
        """The largest number of windows that read one element."""
        return int(torch.bincount(self.repeated[self.valid], minlength=1).max())

    def gather(self, part: Tensor, dim: int) -> Tensor:
        """Returns the elements of each window, with (windows, elements) in place of `dim`."""
        if self.is_even:
            reach = self.dilation * (self.index.shape[1] - 1) + 1
            view = part.unfold(dim, reach, self.stride)[..., :: self.dilation]
            return view.narrow(dim, 0, self.index.shape[0]).movedim(-1, dim + 1)
        flat = part.index_select(dim, self.on_device("repeated", part.device).flatten())
        return flat.unflatten(dim, tuple(self.index.shape))

    def gather_transposed(self, part: Tensor, dim: int) -> Tensor:
        """Returns for each element the sum over the windows that read it; undoes `gather`."""
        if self.is_partition:
            return part.flatten(dim, dim + 1)
        target = part.new_zeros((*part.shape[:dim], self.size, *part.shape[dim + 2 :]))
        index = self.on_device("repeated", part.device).flatten()
        return target.index_add_(dim, index, part.flatten(dim, dim + 1))

    def sum(self, part: Tensor, dim: int) -> Tensor:
        """Returns the sum of the elements of each window; padding counts as 0."""
        if self.is_even:
            return self.gather(part, dim).sum(dim + 1, dtype=part.dtype)
        valid = self._broadcast_valid(part.dim() + 1, dim, part.device)
        return (self.gather(part, dim) * valid).sum(dim + 1, dtype=part.dtype)

    def sum_transposed(self, part: Tensor, dim: int) -> Tensor:
        """Returns for each element the sum over its windows, padding left out: the gradient."""
        valid = self._broadcast_valid(part.dim() + 1, dim, part.device)
        return self.gather_transposed(part.unsqueeze(dim + 1) * valid, dim)

    def _broadcast_valid(self, dims: int, dim: int, device: torch.device) -> Tensor:
        shape = [1] * dims
        shape[dim : dim + 2] = self.index.shape
        return self.on_device("valid", device).view(shape)


# The windows along each of the last dimensions.
Grid = Sequence[AxisWindows]
BOOL = torch.bool


@lru_cache(maxsize=256)
def sliding_windows(
    size: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil_mode: bool
) -> AxisWindows:
    """Returns the windows of torch's max_pool and avg_pool along one dimension."""
    reach = dilation * (kernel - 1) + 1
    room = size + 2 * padding - reach
    count = (ceil(room / stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1  # the last window must start inside the input or its left padding
    starts = torch.arange(count) * stride - padding
    index = starts.unsqueeze(1) + torch.arange(kernel) * dilation
    return AxisWindows(index, size, stride, dilation)


@lru_cache(maxsize=256)
def adaptive_windows(size: int, count: int) -> AxisWindows:
    """Returns `count` windows of adaptive pooling. They overlap if count does not divide size."""
    if count and size % count == 0:
        return sliding_windows(size, size // count, size // count, 0, 1, ceil_mode=False)
    places = torch.arange(count)
    starts, ends = places * size // count, -((places + 1) * -size // count)
    width = int((ends - starts).max()) if count else 1
    index = starts.unsqueeze(1) + torch.arange(width)
    past_end = index >= ends.unsqueeze(1)
    return AxisWindows(index.where(~past_end, size), size)  # shorter windows end in padding


def max_pool(n: Format, x: Value, grid: Grid) -> tuple[Value, Value]:
    """Returns the largest element of each window, and its place in the flattened input.

    Takes the rounds of `max` over a window. The places, and the bits of the winners that the
    gradient needs, are computed when something reads them; places take a round more than bits.
    """
    if x.arith.pending and prod(w.index.numel() for w in grid) > prod(w.size for w in grid):
        x = settled(n, x)  # once, instead of in every window that reads an element
    windows = x.arith.map(lambda part: _windows(part, grid))
    radix = None if windows.numel <= FEW_ELEMENTS else 2
    largest, levels = n.protocol.max_with_tournament(windows, -1, radix=radix)
    bits = Deferred(
        lambda: Value(n.protocol.tournament_winners(levels, -1), BOOL), windows.shape, BOOL
    )
    place = Deferred(lambda: _places(n, bits, grid), largest.shape, torch.int64)
    return Value(largest, x.dtype), place.with_saved(winners=bits)


def max_pool_backward(n: Format, grad: Operand, winners: Value, grid: Grid) -> Value:
    """Returns the gradient by the input of `max_pool`, from the bits of the winners. 1 round."""
    if isinstance(grad, Value):
        grad = grad.map(lambda part: part.unsqueeze(-1).expand(winners.shape))
    else:
        grad = torch.as_tensor(grad).unsqueeze(-1)
    chosen = settled(n, mul(n, winners, grad))
    limit = chosen.arith.limit * _most_readers(grid)
    share = chosen.arith.map(lambda part: _windows_transposed(part, grid), limit=limit)
    return Value(share, chosen.dtype)


def sum_pool(n: Format, x: Value, grid: Grid) -> Value:
    """Returns the sum of each window. Local."""
    share = addable(n, x.arith)
    limit = share.limit * prod(windows.most_elements for windows in grid)
    return Value(share.map(lambda part: _sums(part, grid), limit=limit), x.dtype)


def sum_pool_backward(n: Format, grad: Value, grid: Grid) -> Value:
    """Returns the gradient by the input of `sum_pool`. Local."""
    share = addable(n, grad.arith)
    limit = share.limit * _most_readers(grid)
    return Value(share.map(lambda part: _sums_transposed(part, grid), limit=limit), grad.dtype)


def _windows(part: Tensor, grid: Grid) -> Tensor:
    """Returns (..., *sizes) as (..., *windows, elements of a window)."""
    start = part.dim() - len(grid)
    for i, windows in enumerate(grid):
        part = windows.gather(part, start + 2 * i)
    dims = [start + 2 * i for i in range(len(grid))]
    last = [dim + 1 for dim in dims]
    return part.permute(*range(start), *dims, *last).flatten(start + len(grid))


def _windows_transposed(part: Tensor, grid: Grid) -> Tensor:
    count = len(grid)
    start = part.dim() - 1 - count
    part = part.unflatten(-1, tuple(windows.index.shape[1] for windows in grid))
    pairs = [dim for i in range(count) for dim in (start + i, start + count + i)]
    part = part.permute(*range(start), *pairs)
    for i, windows in enumerate(grid):
        part = windows.gather_transposed(part, start + i)
    return part


def _sums(part: Tensor, grid: Grid) -> Tensor:
    for i, windows in enumerate(grid):
        part = windows.sum(part, part.dim() - len(grid) + i)
    return part


def _sums_transposed(part: Tensor, grid: Grid) -> Tensor:
    for i, windows in enumerate(grid):
        part = windows.sum_transposed(part, part.dim() - len(grid) + i)
    return part


def _most_readers(grid: Grid) -> int:
    """Returns the largest number of windows that read one element."""
    return prod(windows.most_readers for windows in grid)


def _places(n: Format, bits: Value, grid: Grid) -> Value:
    """Returns for each window the place of its winner in the flattened last dimensions."""
    sizes = [windows.size for windows in grid]
    table = _windows(torch.arange(prod(sizes)).view(sizes), grid)
    return Value(mul(n, bits, table).arith.sum(-1), torch.int64)
