"""Maxima and means over windows that move over the last dimensions of a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import ceil, prod

import torch
from torch import Tensor

from ..errors import UnsupportedOp
from .arithmetic import mul
from .conversion import settled
from .format import Format
from .lazy import Deferred
from .value import Operand, Value


@dataclass(frozen=True)
class Taps:
    """Windows along one dimension of `size` elements: which elements each of them reads.

    index: (windows, taps), beyond the input before its start or after its end where there is
    padding. NOTE [padding]: such a tap repeats the nearest of its window's own elements where the
    largest is sought. The first of equals wins, so the winner is the element that would have won.
    """

    index: Tensor
    size: int
    stride: int = 0  # of windows that are evenly spaced, and dense where dilation is 1
    dilation: int = 0
    _copies: dict[tuple[str, torch.device, int], Tensor] = field(default_factory=dict, repr=False)
    _counts: dict[int, int | None] = field(default_factory=dict, repr=False)

    @cached_property
    def is_even(self) -> bool:
        """Whether strides tell all: evenly spaced windows without padding."""
        return bool(self.stride) and bool(self.valid.all())

    @cached_property
    def is_partition(self) -> bool:
        """Whether every element is read by exactly one window, in order."""
        windows, taps = self.index.shape
        even = self.is_even and self.dilation == 1 and self.stride == taps
        return even and windows * taps == self.size

    def there(self, name: str, device: torch.device) -> Tensor:
        """`repeated` or `valid` on a device, copied once for each stream of work there."""
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        key = (name, device, stream)
        if key not in self._copies:
            self._copies[key] = getattr(self, name).to(device)
        return self._copies[key]

    @cached_property
    def valid(self) -> Tensor:
        return (self.index >= 0) & (self.index < self.size)

    @cached_property
    def repeated(self) -> Tensor:
        """The index with taps in the padding moved to the nearest element of the window."""
        if not self.valid.any(1).all():
            raise UnsupportedOp("a pooling window lies in the padding as a whole: pad less")
        first = self.index.where(self.valid, self.size).amin(1, keepdim=True)
        last = self.index.where(self.valid, -1).amax(1, keepdim=True)
        return torch.minimum(torch.maximum(self.index, first), last)

    def counted(self, padding: int = 0) -> Tensor:
        """How many elements each window reads, this much padding on either side included."""
        return ((self.index >= -padding) & (self.index < self.size + padding)).sum(1)

    @cached_property
    def most(self) -> int:
        """How many elements a window reads at most."""
        return int(self.counted().max())

    def count(self, padding: int = 0) -> int | None:
        """How many each window reads, this much padding included, if all read as many."""
        if padding not in self._counts:
            counts = self.counted(padding)
            same = counts.numel() > 0 and bool((counts == counts[0]).all())
            self._counts[padding] = int(counts[0]) if same else None
        return self._counts[padding]

    def take(self, part: Tensor, dim: int) -> Tensor:
        """The elements that each window reads, (windows, taps) in place of `dim`; no padding."""
        if self.is_even:
            reach = self.dilation * (self.index.shape[1] - 1) + 1
            view = part.unfold(dim, reach, self.stride)[..., :: self.dilation]
            return view.narrow(dim, 0, self.index.shape[0]).movedim(-1, dim + 1)
        flat = part.index_select(dim, self.there("repeated", part.device).flatten())
        return flat.unflatten(dim, tuple(self.index.shape))

    def give(self, part: Tensor, dim: int) -> Tensor:
        """The transpose of `take`: what every element of the input is read as, added up."""
        if self.is_partition:
            return part.flatten(dim, dim + 1)
        target = part.new_zeros((*part.shape[:dim], self.size, *part.shape[dim + 2 :]))
        index = self.there("repeated", part.device).flatten()
        return target.index_add_(dim, index, part.flatten(dim, dim + 1))

    def total(self, part: Tensor, dim: int) -> Tensor:
        """The sum of what each window reads, padding being 0."""
        if self.is_even:
            return self.take(part, dim).sum(dim + 1, dtype=part.dtype)
        shape = [1] * part.dim()
        shape[dim : dim + 1] = self.index.shape
        valid = self.there("valid", part.device).view(shape)
        return (self.take(part, dim) * valid).sum(dim + 1, dtype=part.dtype)

    def spread(self, part: Tensor, dim: int) -> Tensor:
        """The transpose of `total`."""
        shape = [1] * (part.dim() + 1)
        shape[dim : dim + 2] = self.index.shape
        valid = self.there("valid", part.device).view(shape)
        return self.give(part.unsqueeze(dim + 1) * valid, dim)


Grid = Sequence[Taps]
BOOL = torch.bool


@lru_cache(maxsize=256)
def window_taps(
    size: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil_mode: bool
) -> Taps:
    """The windows of torch's poolings along one dimension."""
    reach = dilation * (kernel - 1) + 1
    room = size + 2 * padding - reach
    count = (ceil(room / stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1  # the last window must start inside the input or its left padding
    starts = torch.arange(count) * stride - padding
    index = starts.unsqueeze(1) + torch.arange(kernel) * dilation
    return Taps(index, size, stride, dilation)


@lru_cache(maxsize=256)
def adaptive_taps(size: int, count: int) -> Taps:
    """Windows that divide a dimension into `count`, overlapping where it does not divide."""
    if count and size % count == 0:
        return window_taps(size, size // count, size // count, 0, 1, ceil_mode=False)
    places = torch.arange(count)
    starts, ends = places * size // count, -((places + 1) * -size // count)
    width = int((ends - starts).max()) if count else 1
    index = starts.unsqueeze(1) + torch.arange(width)
    return Taps(index.where(index < ends.unsqueeze(1), size), size)  # beyond its end: padding


def max_pool(n: Format, x: Value, grid: Grid) -> tuple[Value, Value]:
    """The largest element of each window, and its place in the flattened input.

    The rounds of `max` over a window. Places, and the bits kept beside them as `winners` for the
    gradient, are computed when somebody reads them; a place costs a round more than its bit.
    """
    if x.arith.pending and prod(t.index.numel() for t in grid) > prod(t.size for t in grid):
        x = settled(n, x)  # once, not in every window
    windows = x.arith.map(lambda part: _windows(part, grid))
    largest, levels = n.protocol.contest(windows, -1)
    bits = Deferred(lambda: Value(n.protocol.winners(levels, -1), BOOL), windows.shape, BOOL)
    place = Deferred(lambda: _places(n, bits, grid), largest.shape, torch.int64)
    return Value(largest, x.dtype), place.keep(winners=bits)


def max_pool_backward(n: Format, grad: Operand, winners: Value, grid: Grid) -> Value:
    """The gradient by the input of `max_pool`, from the bits that it kept. 1 round."""
    if isinstance(grad, Value):
        grad = grad.map(lambda part: part.unsqueeze(-1).expand(winners.shape))
    else:
        grad = torch.as_tensor(grad).unsqueeze(-1)
    chosen = settled(n, mul(n, winners, grad))
    limit = chosen.arith.limit * _overlap(grid)
    return Value(chosen.arith.map(lambda p: _unwindowed(p, grid), limit=limit), chosen.dtype)


def sum_pool(n: Format, x: Value, grid: Grid) -> Value:
    """The sum of each window. Local."""
    most = prod(taps.most for taps in grid)
    return Value(x.arith.map(lambda p: _totals(p, grid), limit=x.arith.limit * most), x.dtype)


def sum_pool_backward(n: Format, grad: Value, grid: Grid) -> Value:
    """The gradient by the input of `sum_pool`. Local."""
    limit = grad.arith.limit * _overlap(grid)
    return Value(grad.arith.map(lambda p: _spread(p, grid), limit=limit), grad.dtype)


def _windows(part: Tensor, grid: Grid) -> Tensor:
    """(..., *sizes) as (..., *windows, taps of a window)."""
    start = part.dim() - len(grid)
    for i, taps in enumerate(grid):
        part = taps.take(part, start + 2 * i)
    dims = [start + 2 * i for i in range(len(grid))]
    last = [dim + 1 for dim in dims]
    return part.permute(*range(start), *dims, *last).flatten(start + len(grid))


def _unwindowed(part: Tensor, grid: Grid) -> Tensor:
    """The transpose of `_windows`."""
    count = len(grid)
    start = part.dim() - 1 - count
    part = part.unflatten(-1, tuple(taps.index.shape[1] for taps in grid))
    pairs = [dim for i in range(count) for dim in (start + i, start + count + i)]
    part = part.permute(*range(start), *pairs)
    for i, taps in enumerate(grid):
        part = taps.give(part, start + i)
    return part


def _totals(part: Tensor, grid: Grid) -> Tensor:
    for i, taps in enumerate(grid):
        part = taps.total(part, part.dim() - len(grid) + i)
    return part


def _spread(part: Tensor, grid: Grid) -> Tensor:
    for i, taps in enumerate(grid):
        part = taps.spread(part, part.dim() - len(grid) + i)
    return part


def _overlap(grid: Grid) -> int:
    """How many windows read one element at most."""
    reads = [torch.bincount(t.repeated[t.valid], minlength=1).max() for t in grid]
    return prod(int(most) for most in reads)


def _places(n: Format, bits: Value, grid: Grid) -> Value:
    """For each window the number of its winner, counted through the input's last dimensions."""
    numbers = torch.arange(prod(t.size for t in grid)).view([t.size for t in grid])
    table = _windows(numbers, grid)
    return Value(mul(n, bits, table).arith.sum(-1), torch.int64)
