"""The secret tensors of an enclave: at most `limit` bytes in plain inside, the rest sealed outside.

NOTE [memory of tensors]: a tensor's memory is cut into chunks at boundaries of pages. A chunk that
has to leave is sealed and stored outside, and its pages go back to the system; the addresses stay.
So all views of a tensor stay valid, an operation can use a part of a tensor while the rest is
outside, and opening a chunk fills the same addresses. With handles that are opened into new memory,
each view would have to be made again, and a part could not be used in place.
Values of secret tensors never change: a chunk is sealed once, and can then leave at no cost.

NOTE [moving chunks]: threads seal and open chunks where cores are free (`chunk_transfers`). Room
is made, and counted, before a chunk is opened. Chunks that `prefetch` names are opened while an
operation computes, in at most half of what is not in use; of the chunks that leave next, some are
sealed behind. One that cannot be opened raises its error when it is used, and not before.

Keys, nonces and what is detected: see `chunk_cipher`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from time import perf_counter
from typing import Self

import torch
from torch import Tensor

from ...errors import ConfigError, OutOfMemory, SealedChunkRejected
from ...kernels.backend import set_kept_scratch
from ...protocols.plain_memory import MemoryCounters, PlainMemory
from .chunk_cipher import TAG_BYTES, ChunkCipher
from .chunk_transfers import ChunkTransfers, num_transfer_threads, raise_error
from .host_storage import FileStorage, HostStorage
from .memory_budget import SMALL_LIMIT, chunk_bytes_for, reserve
from .pages import LARGE_BYTES, PAGE, erase, return_unused_memory
from .sealed_chunks import Chunk, SealedChunks
from .tensor_blocks import TensorBlocks

BEHIND = 8  # one part of so many of the limit is sealed behind, if the memory is that full


def open_memory(
    limit: int, measurement: bytes, *, connections: int = 0, multiplies: bool = False
) -> SealedMemory:
    """Returns a memory whose sealed chunks lie in the machine's, outside of the process.

    `reserve` has the other arguments. From now on the process keeps no freed memory, where its
    allocator is glibc's; mimalloc needs MIMALLOC_PURGE_DELAY=0 from the start.
    """
    return_unused_memory()
    set_kept_scratch(LARGE_BYTES)
    num_threads = num_transfer_threads()
    limit -= reserve(limit, connections, multiplies, num_threads)
    storage = FileStorage(None, chunk_bytes_for(limit) + PAGE + TAG_BYTES)
    return SealedMemory(storage, limit=limit, measurement=measurement, num_threads=num_threads)


class SealedMemory(PlainMemory):
    """Tensors of which at most `limit` bytes are in plain inside the enclave.

    storage: where sealed chunks go; nobody trusts it. measurement: that of the enclave; the key
    depends on it, and is new in each memory. num_threads: that seal and open chunks.
    The limit holds for tensors that were adopted and for what `working` is asked for. The memory of
    a tensor counts until it is erased, after its last user is gone.
    """

    limit: int

    def __init__(
        self, storage: HostStorage, *, limit: int, measurement: bytes, num_threads: int = 0
    ) -> None:
        if limit < SMALL_LIMIT:
            raise ConfigError(f"memory_limit={limit}", limit=f"{SMALL_LIMIT} bytes at least")
        self.limit = limit
        self._chunks = SealedChunks(storage, ChunkCipher(measurement))
        self._blocks = TensorBlocks(chunk_bytes_for(limit))
        self._inside: OrderedDict[Chunk, None] = OrderedDict()  # least recently used first
        self._held = self._peak = self._working = self._evicted = self._num_prefetched = 0
        self._seconds_waiting = 0.0
        self._lock = RLock()
        self._transfers = ChunkTransfers(self._lock, num_threads)

    # What operations ask for ---------------------------------------------------------------------

    def adopt(self, tensor: Tensor, name: str) -> None:
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        with self._lock:
            if not size or storage in self._blocks:
                return
            self.forget_freed()
            block = self._blocks.add(storage, name)
            with self._waiting():
                self._make_room(name, size)
            for chunk in block.chunks:
                chunk.is_inside = chunk.is_written = True
                self._inside[chunk] = None
            self._hold(size)
            self._seal_behind()

    def new(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        tensor = torch.empty(tuple(shape), dtype=dtype)
        with self._lock:
            self.forget_freed()
            self._blocks.add(tensor.untyped_storage(), name)
        return tensor

    @contextmanager
    def opened(
        self, name: str, tensors: Iterable[Tensor], *, write: bool = False
    ) -> Iterator[None]:
        with self._lock:
            chunks = self._blocks.chunks_of(tensors)
            self._require(name, sum(chunk.size for chunk in chunks))
            for chunk in chunks:
                chunk.users += 1
        try:
            with self._lock, self._waiting():
                self._open(name, chunks)
                for chunk in chunks:
                    chunk.is_written |= write
            yield
        finally:
            with self._lock:
                for chunk in chunks:
                    chunk.users -= 1
                self._seal_behind()

    @contextmanager
    def working(self, name: str, size: int) -> Iterator[None]:
        with self._lock:
            with self._waiting():
                self._make_room(name, size)
            self._hold(size)
            self._working += size
        try:
            yield
        finally:
            with self._lock:
                self._hold(-size)
                self._working -= size

    def prefetch(self, name: str, tensors: Iterable[Tensor]) -> None:
        if not self._transfers.has_threads:
            return
        with self._lock:
            self._num_prefetched += 1
            room, chosen = (self.limit - self._working) // 2, []
            for chunk in self._blocks.chunks_of(tensors):
                room -= chunk.size
                if room < 0:
                    break
                chosen.append(chunk)
            self._transfers.later(self._open_ahead, self._num_prefetched, name, chosen)

    def size_of(self, tensors: Iterable[Tensor]) -> int:
        with self._lock:
            return sum(chunk.size for chunk in self._blocks.chunks_of(tensors))

    def forget_freed(self) -> None:
        """Erases and gives up the memory of tensors that nobody has any more."""
        with self._lock:
            for block in self._blocks.take_freed():
                for chunk in block.chunks:
                    self._transfers.wait(chunk)
                    if chunk.is_inside:
                        self._erase(chunk)
                    self._chunks.forget(chunk)

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
                seconds_waiting=self._seconds_waiting,
            )

    def close(self) -> None:
        """Ends the threads, and overwrites the key: nothing outside can be opened any more."""
        self._transfers.close()
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

    def _open(self, name: str, chunks: Sequence[Chunk]) -> None:
        """Brings chunks inside, all of which are in use: none of them leaves meanwhile."""
        for chunk in chunks:
            if chunk.is_outside or not (chunk.is_inside or chunk.version):
                self._make_room(name, chunk.size)
                self._begin_opening(chunk)
        for chunk in chunks:
            self._transfers.wait(chunk)
        raise_error(chunks)
        for chunk in chunks:
            self._inside.move_to_end(chunk)

    def _open_ahead(self, number: int, name: str, chunks: Sequence[Chunk]) -> None:
        """Begins to open chunks for a later operation, until there is a newer request.

        What cannot be sealed to make room is left to the next operation that needs room.
        """
        with self._lock, suppress(OutOfMemory, SealedChunkRejected):
            for chunk in chunks:
                if number != self._num_prefetched:
                    return
                if chunk.is_outside:
                    self._evict(name, chunk.size)
                    self._begin_opening(chunk)

    def _begin_opening(self, chunk: Chunk) -> None:
        """Opens a chunk for which there is room, unless another thread did, or it was freed."""
        is_new = not (chunk.is_inside or chunk.version)  # nothing was written to it yet
        if chunk.is_outside or is_new:
            self._hold(chunk.size)
            self._inside[chunk] = None
            chunk.is_inside = is_new
        if chunk.is_outside:
            self._transfers.begin(self._move_in, chunk)

    def _move_in(self, chunk: Chunk) -> None:
        """Opens a chunk on any thread; if it is refused, it takes no room."""
        try:
            self._chunks.open(chunk)
        except BaseException:
            with self._lock:
                del self._inside[chunk]
                self._hold(-chunk.size)
            raise

    def _make_room(self, name: str, size: int) -> None:
        if self._held + size > self.limit:
            self.forget_freed()
        self._evict(name, size)

    def _evict(self, name: str, size: int) -> None:
        """Makes room for so many bytes: the chunks leave that nobody has used for longest."""
        while (missing := self._held + size - self.limit) > 0:
            leaving = self._next_to_leave(missing)
            if not leaving:
                raise self._too_large(name, self._held + size)
            for chunk in leaving:
                self._begin_sealing(chunk)
            for chunk in leaving:
                self._transfers.wait(chunk)  # meanwhile another thread may use it, or free it
                if chunk.is_inside:
                    raise_error([chunk])
                    if not (chunk.users or chunk.is_written):
                        self._erase(chunk)
                        self._evicted += 1

    def _next_to_leave(self, size: int) -> list[Chunk]:
        """Returns so many bytes of chunks that nobody uses, the least recently used first."""
        found: list[Chunk] = []
        for chunk in self._inside:
            if size <= 0:
                break
            if not chunk.users:
                found.append(chunk)
                size -= chunk.size
        return found

    def _seal_behind(self) -> None:
        """Begins to seal the chunks that leave next, so that they can leave at no cost."""
        margin = self.limit // BEHIND
        if self._transfers.has_threads and self._held > self.limit - margin:
            for chunk in self._next_to_leave(margin):
                self._begin_sealing(chunk)

    def _begin_sealing(self, chunk: Chunk) -> None:
        if chunk.is_written and not chunk.is_moving:
            self._transfers.begin(self._chunks.seal, chunk)

    def _erase(self, chunk: Chunk) -> None:
        erase(chunk.address, chunk.size)
        chunk.is_inside = False
        del self._inside[chunk]
        self._hold(-chunk.size)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self._seconds_waiting += perf_counter() - start

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
