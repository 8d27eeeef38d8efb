"""The chunks that are inside the enclave in plain, and their way out and back.

The least recently used chunk leaves first. It is sealed then if it was written since it came in.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import RLock

import torch

from ...errors import ConfigError, OutOfMemory, SealedChunkRejected
from .chunk_cipher import SLACK_BYTES, TAG_BYTES, ChunkCipher
from .host_storage import HostStorage
from .plaintext import PlaintextBudget, PlaintextBuffer


@dataclass(frozen=True)
class SealedCounters:
    """What a store has done so far. `peak_resident` is measured, and never above `budget`."""

    budget: int
    resident: int
    peak_resident: int
    hits: int
    opened: int
    evicted: int
    bytes_sealed: int
    bytes_opened: int


@dataclass(eq=False)
class Chunk:
    """One chunk of a tensor: its place outside, the version there, and its plaintext if inside."""

    name: str
    tensor: int
    index: int
    size: int
    slot: int
    version: int = 0  # 0: it was never sealed
    plain: PlaintextBuffer | None = None
    written: bool = False  # since it was opened
    users: int = 0  # as long as there are any it stays inside
    dropped: bool = False

    def tensor_of(self, dtype: torch.dtype) -> torch.Tensor:
        """Returns the plaintext as a flat tensor, without a copy."""
        assert self.plain is not None
        return torch.frombuffer(self.plain, dtype=dtype, count=self.size // dtype.itemsize)

    def check(self) -> None:
        """Raises ConfigError if the tensor is not in the store any more."""
        if self.dropped:
            raise ConfigError("it was deleted or replaced while it was read").about(self.place())

    def place(self) -> str:
        return f"tensor {self.name!r}, chunk {self.index}"


class ChunkCache:
    """Chunks inside, by the time of their last use. Every method may be called in any thread."""

    def __init__(self, storage: HostStorage, cipher: ChunkCipher, budget: int) -> None:
        self._storage, self._cipher = storage, cipher
        self._budget = PlaintextBudget(budget, self._evict_one)
        self._inside: OrderedDict[Chunk, None] = OrderedDict()  # least recently used first
        self._lock = RLock()
        self._sealed = memoryview(bytearray())  # the copy inside of one sealed chunk
        self._hits = self._opened = self._evicted = 0
        self._bytes_sealed = self._bytes_opened = 0

    def allocate(self, size: int) -> PlaintextBuffer:
        """Returns a buffer for plaintext outside of chunks, counted as long as it lives."""
        with self._lock:
            return self._budget.allocate(size)

    def write(self, chunk: Chunk, data: torch.Tensor) -> None:
        """Puts a copy of flat bytes into a chunk that was never used."""
        with self._lock:
            chunk.plain = self._budget.allocate(chunk.size + SLACK_BYTES)
            chunk.tensor_of(torch.uint8).copy_(data)
            chunk.written, self._inside[chunk] = True, None

    def acquire(self, chunk: Chunk, *, write: bool = False) -> None:
        """Brings a chunk inside, where it stays until it is released."""
        with self._lock:
            chunk.check()
            if chunk.plain is None:
                self._open(chunk)
            else:
                self._hits += 1
            self._inside[chunk] = None
            self._inside.move_to_end(chunk)
            chunk.users += 1
            chunk.written = chunk.written or write

    def release(self, chunk: Chunk) -> None:
        with self._lock:
            chunk.users -= 1

    def drop(self, chunks: Iterable[Chunk]) -> None:
        """Forgets chunks; what is inside of them is overwritten once nobody uses it."""
        with self._lock:
            for chunk in chunks:
                self._inside.pop(chunk, None)
                chunk.plain, chunk.dropped = None, True

    def counters(self) -> SealedCounters:
        with self._lock:
            return SealedCounters(
                budget=self._budget.limit,
                resident=self._budget.resident,
                peak_resident=self._budget.peak,
                hits=self._hits,
                opened=self._opened,
                evicted=self._evicted,
                bytes_sealed=self._bytes_sealed,
                bytes_opened=self._bytes_opened,
            )

    def _open(self, chunk: Chunk) -> None:
        plain = self._budget.allocate(chunk.size + SLACK_BYTES)
        try:
            with memoryview(plain).cast(
                "B"
            ) as view:  # released, so that no traceback keeps the plaintext
                self._decrypt(chunk, view)
        except BaseException:
            del plain
            raise
        chunk.plain, chunk.written = plain, False
        self._opened += 1
        self._bytes_opened += chunk.size

    def _decrypt(self, chunk: Chunk, into: memoryview) -> None:
        where = {"tensor": chunk.tensor, "chunk": chunk.index, "version": chunk.version}
        try:
            sealed = self._copy(chunk)
            count = self._storage.read(chunk.slot, sealed)
            self._cipher.open(sealed[:count], into, **where)
        except SealedChunkRejected as error:
            raise error.about(chunk.place()) from None
        except OSError as error:
            raise _unusable("read", error).about(chunk.place()) from error

    def _evict_one(self) -> bool:
        """Sends the least recently used chunk out that nobody uses; False if there is none."""
        chunk = next((one for one in self._inside if not one.users), None)
        if chunk is None:
            return False
        if chunk.written:
            self._seal(chunk)
        chunk.plain, chunk.written = None, False
        del self._inside[chunk]
        self._evicted += 1
        return True

    def _seal(self, chunk: Chunk) -> None:
        """After a failure the chunk is still inside."""
        assert chunk.plain is not None
        plain, sealed = memoryview(chunk.plain).cast("B")[: chunk.size], self._copy(chunk)
        try:
            version = self._cipher.seal(plain, sealed, tensor=chunk.tensor, chunk=chunk.index)
            self._storage.write(chunk.slot, sealed)
        except SealedChunkRejected as error:
            raise error.about(chunk.place()) from None
        except OSError as error:
            raise _unusable("written", error).about(chunk.place()) from error
        chunk.version = version
        self._bytes_sealed += chunk.size

    def _copy(self, chunk: Chunk) -> memoryview:
        """Returns memory inside for a sealed chunk: the host cannot change what is there."""
        size = chunk.size + TAG_BYTES
        if len(self._sealed) < size:
            self._sealed = memoryview(bytearray(size))
        return self._sealed[:size]


class Ahead:
    """A chunk that another thread brings inside meanwhile."""

    def __init__(self, cache: ChunkCache, chunk: Chunk, thread: ThreadPoolExecutor) -> None:
        self._cache, self.chunk = cache, chunk
        self._inside = thread.submit(self._fetch)
        self._taken = False

    def _fetch(self) -> bool:
        try:
            self._cache.acquire(self.chunk)
        except OutOfMemory:  # there is room once the caller has released what it uses
            return False
        return True

    def take(self, *, write: bool) -> Chunk:
        """Returns the chunk, which the caller has to release."""
        self._taken = True
        if self._inside.result():
            self.chunk.check()
            self.chunk.written = self.chunk.written or write
        else:
            self._cache.acquire(self.chunk, write=write)
        return self.chunk

    def cancel(self) -> None:
        """Releases the chunk, unless the caller has taken it."""
        if not self._taken and self._inside.exception() is None and self._inside.result():
            self._cache.release(self.chunk)


def _unusable(verb: str, error: OSError) -> SealedChunkRejected:
    return SealedChunkRejected(
        f"it cannot be {verb}",
        cause=os.strerror(error.errno) if error.errno else "the host's storage failed",
        remedy="the host has to give more space, or another place",
    )
