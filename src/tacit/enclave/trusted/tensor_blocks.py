"""The memory of tensors, cut into chunks at boundaries of pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from ...protocols.plain_memory import extent
from .pages import PAGE
from .sealed_chunks import Chunk


@dataclass(eq=False)
class Block:
    """The memory of one tensor and of all its views. Its name and when it is used are public."""

    name: str
    storage: torch.UntypedStorage  # kept, so that its memory is erased before it is freed
    chunks: list[Chunk] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)  # where chunks begin, and the end


class TensorBlocks:
    """The blocks of all tensors of a memory, with chunks of about `chunk_bytes`."""

    def __init__(self, chunk_bytes: int) -> None:
        self._chunk_bytes = chunk_bytes
        self._blocks: dict[int, Block] = {}  # by the memory of their tensors
        self._num_tensors = 0

    def __contains__(self, storage: torch.UntypedStorage) -> bool:
        return storage._cdata in self._blocks

    def add(self, storage: torch.UntypedStorage, name: str) -> Block:
        """Returns a new block for the memory of a tensor, of which nothing is inside yet."""
        self._num_tensors += 1
        block = Block(f"{self._num_tensors} of {name}", storage)
        self._cut(block, storage.data_ptr(), storage.nbytes())
        self._blocks[storage._cdata] = block
        return block

    def chunks_of(self, tensors: Iterable[Tensor]) -> list[Chunk]:
        """Returns the chunks in which elements of tensors may lie, each once."""
        found: dict[Chunk, None] = {}
        for x in tensors:
            block = self._blocks.get(x.untyped_storage()._cdata)
            if block is not None and x.numel():
                start, end = _span(x)
                bounds = zip(block.chunks, block.offsets, block.offsets[1:], strict=False)
                found |= dict.fromkeys(c for c, low, high in bounds if low < end and start < high)
        return list(found)

    def take_freed(self) -> list[Block]:
        """Returns the blocks of tensors that nobody has any more; they are no longer here."""
        count = torch._C._storage_Use_Count
        freed = [key for key in self._blocks if count(key) == 1]  # the block itself
        return [self._blocks.pop(key) for key in freed]

    def clear(self) -> None:
        self._blocks.clear()

    def _cut(self, block: Block, address: int, size: int) -> None:
        """Cuts memory into chunks; all but the first begin at a page."""
        starts = range(address + self._chunk_bytes, address + size, self._chunk_bytes)
        aligned = (-(-start // PAGE) * PAGE for start in starts)
        places = [address, *(one for one in aligned if one < address + size), address + size]
        number = self._num_tensors
        block.offsets = [place - address for place in places]
        for index, (start, end) in enumerate(pairwise(places)):
            block.chunks.append(Chunk(block.name, number, index, start, end - start))


def _span(x: Tensor) -> tuple[int, int]:
    """Returns where the elements of a tensor begin and end, in bytes of its memory."""
    start = int(x.storage_offset()) * x.element_size()
    return start, start + extent(x)
