"""The memory of a plan: addresses that stay, and are used again once nobody holds them.

While a function is recorded, all tensors that it makes get their memory here. A place is free again
when its last tensor goes, as in any allocator, and the next tensor may get it. A replay makes the
same calls in the same order on the same addresses, so it needs no allocation, and no more memory
than the recorded call did.
"""

from __future__ import annotations

import ctypes
import weakref
from bisect import bisect_left, bisect_right, insort
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

ALIGNMENT = 64
SEGMENT_BYTES = 1 << 24
SPOILT = 0xA5


class Block(NamedTuple):
    """Memory of one tensor while a function is recorded. number: counts all that there were."""

    start: int
    size: int
    number: int

    def holds(self, address: int) -> bool:
        """Whether an address is in it."""
        return self.start <= address < self.start + self.size


class _Gap(NamedTuple):
    """Free memory of a segment."""

    start: int
    end: int


class _Segment:
    """One piece of memory, and which of it is free."""

    @torch.inference_mode(False)  # a replay may be outside of such a block of the function
    def __init__(self, size: int) -> None:
        self.memory = torch.empty(size, dtype=torch.uint8)
        self.start = self.memory.data_ptr()
        first = -(-self.start // ALIGNMENT) * ALIGNMENT
        self.gaps = [_Gap(first, self.start + size)]
        self._views: dict[torch.dtype, Tensor] = {}

    def take(self, size: int) -> int | None:
        """Returns the address of the first gap that is large enough, or None."""
        for i, gap in enumerate(self.gaps):
            if gap.end - gap.start >= size:
                self.gaps[i : i + 1] = [_Gap(gap.start + size, gap.end)][
                    : gap.end - gap.start > size
                ]
                return gap.start
        return None

    def free(self, start: int, size: int) -> None:
        gap = _Gap(start, start + size)
        place = bisect_right(self.gaps, gap)
        if place < len(self.gaps) and self.gaps[place].start == gap.end:
            gap = _Gap(gap.start, self.gaps.pop(place).end)
        if place and self.gaps[place - 1].end == gap.start:
            gap = _Gap(self.gaps.pop(place - 1).start, gap.end)
        insort(self.gaps, gap)

    def view(self, dtype: torch.dtype) -> Tensor:
        """Returns the whole segment as elements of a type; its start is aligned for every type."""
        if dtype not in self._views:
            with _no_inference_mode():
                self._views[dtype] = self.memory[: self.memory.numel() // 16 * 16].view(dtype)
        return self._views[dtype]


class Arena:
    """Memory in segments, which are kept as long as the arena.

    The garbage collector may release a block at any time and on any thread. Its memory counts as
    used until the next `empty_like`, so that nobody gets it while a plan is moved.
    """

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}  # those in use, by the start
        self._block_starts: list[int] = []
        self._num_blocks = 0
        self._released: deque[Block] = deque()

    @property
    def num_bytes(self) -> int:
        """How much memory there is, used or free."""
        return sum(segment.memory.numel() for segment in self._segments)

    def empty_like(self, tensor: Tensor) -> Tensor:
        """Returns a tensor of this form, in memory that is free again when its last view goes."""
        span = _span(tensor)
        with _no_inference_mode():
            if not span:
                return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            flat = torch.frombuffer(self._block(span * tensor.itemsize), dtype=tensor.dtype)
            return flat.as_strided(tensor.shape, tensor.stride())

    def alias(self, tensor: Tensor) -> Tensor:
        """Returns a view of the same memory that does not hold it; others are returned as are."""
        if not self.holds(tensor):
            return tensor
        return self.tensor_at(tensor.data_ptr(), tensor)

    def tensor_at(self, address: int, like: Tensor) -> Tensor:
        """Returns a tensor of this form at an address of the arena, which it does not hold."""
        segment = self._segment(address)
        assert segment is not None
        offset, rest = divmod(address - segment.start, like.itemsize)
        assert not rest
        with _no_inference_mode():
            return segment.view(like.dtype).as_strided(like.shape, like.stride(), offset)

    def block(self, address: int) -> Block | None:
        """Returns the block in use that an address is in now, if any."""
        place = bisect_right(self._block_starts, address) - 1
        found = self._blocks[self._block_starts[place]] if place >= 0 else None
        return found if found is not None and found.holds(address) else None

    def used_blocks(self) -> frozenset[int]:
        """Returns the numbers of the blocks that somebody holds; they stay until `empty_like`."""
        self._forget_released()
        return frozenset(block.number for block in self._blocks.values())

    def spoil(self) -> None:
        """Overwrites all memory that is free."""
        for segment in self._segments:
            for gap in segment.gaps:
                segment.memory[gap.start - segment.start : gap.end - segment.start] = SPOILT

    def holds(self, tensor: Tensor) -> bool:
        """Whether the memory of a tensor is here."""
        return bool(tensor.numel()) and self._segment(tensor.data_ptr()) is not None

    def _segment(self, address: int) -> _Segment | None:
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        found = self._segments[place]
        return found if address < found.start + found.memory.numel() else None

    def _block(self, size: int) -> ctypes.Array[ctypes.c_char]:
        """Returns memory that is free again when nobody refers to the block."""
        self._forget_released()
        made = Block(self.take(size), size, self._num_blocks)
        self._blocks[made.start] = made
        insort(self._block_starts, made.start)
        self._num_blocks += 1
        memory = (ctypes.c_char * size).from_address(made.start)
        weakref.finalize(memory, self._release, made).atexit = False  # holds the arena until then
        return memory

    def _release(self, block: Block) -> None:
        """Notes that nobody refers to a block; on any thread."""
        self._released.append(block)

    def _forget_released(self) -> None:
        while self._released:
            block = self._released.popleft()
            del self._blocks[block.start]
            del self._block_starts[bisect_left(self._block_starts, block.start)]
            self.free(block.start, block.size)

    def take(self, size: int) -> int:
        """Returns the address of memory that was free."""
        rounded = _rounded(size)
        for segment in self._segments:
            if (start := segment.take(rounded)) is not None:
                return start
        start = self._add_segment(rounded).take(rounded)
        assert start is not None
        return start

    def free(self, start: int, size: int) -> None:
        """Frees what `take` returned."""
        segment = self._segment(start)
        assert segment is not None
        segment.free(start, _rounded(size))

    def _add_segment(self, least: int) -> _Segment:
        segment = _Segment(max(SEGMENT_BYTES, least + ALIGNMENT))
        place = bisect_right(self._starts, segment.start)
        self._segments.insert(place, segment)
        self._starts.insert(place, segment.start)
        return segment


def _no_inference_mode() -> AbstractContextManager[object]:
    """Leaves such a block; entering one takes longer than making a tensor."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _span(tensor: Tensor) -> int:
    """Returns how many elements lie between the first and the last one, both included."""
    if not tensor.numel():
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
