"""The secret tensors of an enclave: at most `limit` bytes in plain inside, the rest sealed outside.

NOTE [memory of tensors]: a tensor's memory is cut into chunks at boundaries of pages. A chunk that
has to leave is sealed and stored outside, and its pages go back to the system; the addresses stay.
So all views of a tensor stay valid, an operation can use a part of a tensor while the rest is
outside, and opening a chunk fills the same addresses. With handles that are opened into new memory,
each view would have to be made again, and a part could not be used in place.
Values of secret tensors never change: a chunk is sealed once, and can then leave at no cost.

Keys, nonces and what is detected: see `chunk_cipher`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from threading import RLock
from typing import Self

import torch
from torch import Tensor

from ...errors import ConfigError, OutOfMemory
from ...kernels.backend import set_kept_scratch
from ...protocols.plain_memory import MemoryCounters, PlainMemory, extent
from ..edl import FRAME_BYTES
from .chunk_cipher import TAG_BYTES, ChunkCipher
from .host_storage import FileStorage, HostStorage
from .pages import LARGE_BYTES, PAGE, erase, return_unused_memory
from .sealed_chunks import Chunk, SealedChunks

LIMIT_BYTES = 90_000_000  # what the first generation of SGX leaves to an enclave
CHUNK_BYTES = 1 << 20
MIN_CHUNKS = 64  # of the limit
# OpenBLAS keeps memory for packed operands, and oneDNN its primitives: 11.2 MB after products of up
# to 3000 x 3000 x 3000 and convolutions, on an ARM processor with one thread.
LIBRARY_BYTES = 12 << 20
SMALL_BLOCKS = 2 << 20  # bytes of blocks below LARGE_BYTES, and of ends of pages
SMALL_LIMIT = MIN_CHUNKS * PAGE


def chunk_bytes_for(limit: int) -> int:
    """Returns the size of chunks for a limit: 1 MiB, or less so that many of them fit."""
    return min(CHUNK_BYTES, limit // MIN_CHUNKS // PAGE * PAGE)


def open_memory(
    limit: int, measurement: bytes, *, connections: int = 0, multiplies: bool = False
) -> SealedMemory:
    """Returns a memory whose sealed chunks lie in the machine's, outside of the process.

    `reserve` has the other arguments. From now on the process keeps no freed memory, where its
    allocator is glibc's; mimalloc needs MIMALLOC_PURGE_DELAY=0 from the start.
    """
    return_unused_memory()
    set_kept_scratch(LARGE_BYTES)
    limit -= reserve(limit, connections, multiplies)
    storage = FileStorage(None, chunk_bytes_for(limit) + PAGE + TAG_BYTES)
    return SealedMemory(storage, limit=limit, measurement=measurement)


def reserve(limit: int, connections: int, multiplies: bool) -> int:
    """Returns the bytes of a limit that are left to what nobody counts.

    These are small blocks, ends of pages, a chunk on its way, and two frames of each of the
    connections that are relayed to the enclave; if it multiplies itself, also what libraries of
    torch keep. Of a small limit each is an eighth at most, which may be too little.
    """
    chunk = chunk_bytes_for(limit) + PAGE + TAG_BYTES
    blocks = min(SMALL_BLOCKS + chunk + 2 * FRAME_BYTES * connections, limit // 8)
    return blocks + (min(LIBRARY_BYTES, limit // 8) if multiplies else 0)


@dataclass(eq=False)
class _Block:
    """The memory of one tensor and of all its views. Its name and when it is used are public."""

    name: str
    storage: torch.UntypedStorage  # kept, so that its memory is erased before it is freed
    chunks: list[Chunk] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)  # where chunks begin, and the end


class SealedMemory(PlainMemory):
    """Tensors of which at most `limit` bytes are in plain inside the enclave.

    storage: where sealed chunks go; nobody trusts it. measurement: that of the enclave; the key
    depends on it, and is new in each memory.
    The limit holds for tensors that were adopted and for what `working` is asked for. The memory of
    a tensor counts until it is erased, after its last user is gone.
    """

    limit: int

    def __init__(self, storage: HostStorage, *, limit: int, measurement: bytes) -> None:
        if limit < SMALL_LIMIT:
            raise ConfigError(f"memory_limit={limit}", limit=f"{SMALL_LIMIT} bytes at least")
        self.limit, self._chunk_bytes = limit, chunk_bytes_for(limit)
        self._chunks = SealedChunks(storage, ChunkCipher(measurement))
        self._blocks: dict[int, _Block] = {}  # by the memory of their tensors
        self._inside: OrderedDict[Chunk, None] = OrderedDict()  # least recently used first
        self._held = self._peak = self._num_tensors = self._evicted = 0
        self._lock = RLock()

    # What operations ask for ---------------------------------------------------------------------

    def adopt(self, tensor: Tensor, name: str) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        with self._lock:
            if not size or key in self._blocks:
                return
            block = self._add(storage, name)
            self._make_room(name, size)
            for chunk in block.chunks:
                chunk.is_inside = chunk.is_written = True
                self._inside[chunk] = None
            self._hold(size)

    def new(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        tensor = torch.empty(tuple(shape), dtype=dtype)
        with self._lock:
            self._add(tensor.untyped_storage(), name)
        return tensor

    @contextmanager
    def opened(
        self, name: str, tensors: Iterable[Tensor], *, write: bool = False
    ) -> Iterator[None]:
        with self._lock:
            chunks = self._chunks_of(tensors)
            self._require(name, sum(chunk.size for chunk in chunks))
            for chunk in chunks:
                chunk.users += 1
        try:
            with self._lock:
                for chunk in chunks:
                    self._open(name, chunk)
                    chunk.is_written |= write
            yield
        finally:
            with self._lock:
                for chunk in chunks:
                    chunk.users -= 1

    @contextmanager
    def working(self, name: str, size: int) -> Iterator[None]:
        with self._lock:
            self._make_room(name, size)
            self._hold(size)
        try:
            yield
        finally:
            with self._lock:
                self._hold(-size)

    def size_of(self, tensors: Iterable[Tensor]) -> int:
        with self._lock:
            return sum(chunk.size for chunk in self._chunks_of(tensors))

    def forget_freed(self) -> None:
        """Erases and gives up the memory of tensors that nobody has any more."""
        count = torch._C._storage_Use_Count
        with self._lock:
            freed = [key for key, block in self._blocks.items() if count(key) == 1]  # this one
            for key in freed:
                for chunk in self._blocks[key].chunks:
                    if chunk.is_inside:
                        erase(chunk.address, chunk.size)
                        self._hold(-chunk.size)
                    self._inside.pop(chunk, None)
                    self._chunks.forget(chunk)
                del self._blocks[key]

    def counters(self) -> MemoryCounters:
        with self._lock:
            self.forget_freed()
            done = self._chunks
            return MemoryCounters(
                limit=self.limit,
                resident=self._held,
                peak=self._peak,
                opened=done.opened,
                evicted=self._evicted,
                bytes_sealed=done.bytes_sealed,
                bytes_opened=done.bytes_opened,
                seconds_sealing=done.seconds_sealing,
                seconds_opening=done.seconds_opening,
            )

    def close(self) -> None:
        """Overwrites the key, so that nothing outside can be opened any more."""
        with self._lock:
            self.forget_freed()
            self._blocks.clear()
            self._inside.clear()
            self._chunks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Chunks --------------------------------------------------------------------------------------

    def _add(self, storage: torch.UntypedStorage, name: str) -> _Block:
        """Returns a new block for the memory of a tensor, of which nothing is inside yet."""
        self.forget_freed()
        self._num_tensors += 1
        block = _Block(f"{self._num_tensors} of {name}", storage)
        self._cut(block, storage.data_ptr(), storage.nbytes())
        self._blocks[storage._cdata] = block
        return block

    def _cut(self, block: _Block, address: int, size: int) -> None:
        """Cuts memory into chunks; all but the first begin at a page."""
        starts = range(address + self._chunk_bytes, address + size, self._chunk_bytes)
        aligned = (-(-start // PAGE) * PAGE for start in starts)
        places = [address, *(one for one in aligned if one < address + size), address + size]
        number = self._num_tensors
        block.offsets = [place - address for place in places]
        for index, (start, end) in enumerate(pairwise(places)):
            block.chunks.append(Chunk(block.name, number, index, start, end - start))

    def _chunks_of(self, tensors: Iterable[Tensor]) -> list[Chunk]:
        """Returns the chunks in which elements of tensors may lie, each once."""
        found: dict[Chunk, None] = {}
        for x in tensors:
            block = self._blocks.get(x.untyped_storage()._cdata)
            if block is not None and x.numel():
                start, end = _span(x)
                bounds = zip(block.chunks, block.offsets, block.offsets[1:], strict=False)
                found |= dict.fromkeys(c for c, low, high in bounds if low < end and start < high)
        return list(found)

    def _open(self, name: str, chunk: Chunk) -> None:
        if not chunk.is_inside:
            self._make_room(name, chunk.size)
            self._hold(chunk.size)
            try:
                self._chunks.open(chunk)
            except BaseException:
                self._hold(-chunk.size)
                raise
        self._inside[chunk] = None
        self._inside.move_to_end(chunk)

    def _make_room(self, name: str, size: int) -> None:
        if self._held + size > self.limit:
            self.forget_freed()
        while self._held + size > self.limit:
            chunk = next((one for one in self._inside if not one.users), None)
            if chunk is None:
                raise self._too_large(name, self._held + size)
            self._chunks.seal(chunk)
            erase(chunk.address, chunk.size)
            chunk.is_inside = False
            del self._inside[chunk]
            self._hold(-chunk.size)
            self._evicted += 1

    def _require(self, name: str, size: int) -> None:
        if size > self.limit:
            raise self._too_large(name, size)

    def _too_large(self, name: str, needed: int) -> OutOfMemory:
        return OutOfMemory(
            f"{name} needs {needed} bytes of plaintext inside the enclave at once",
            limit=f"memory_limit leaves {self.limit}",
            remedy="use a smaller batch, or a larger memory_limit",
            subject=name,
        )

    def _hold(self, size: int) -> None:
        self._held += size
        self._peak = max(self._peak, self._held)


def _span(x: Tensor) -> tuple[int, int]:
    """Returns where the elements of a tensor begin and end, in bytes of its memory."""
    start = int(x.storage_offset()) * x.element_size()
    return start, start + extent(x)
