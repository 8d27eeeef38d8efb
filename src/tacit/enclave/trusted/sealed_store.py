"""Tensors that are larger than the enclave's memory: in chunks, sealed outside, a few inside.

Keys, nonces and what is detected: see `chunk_cipher`. Which chunks are inside: see `chunk_cache`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import zip_longest
from threading import RLock
from typing import Self

import torch

from ...errors import ConfigError
from .chunk_cache import Ahead, Chunk, ChunkCache, SealedCounters
from .chunk_cipher import SLACK_BYTES, ChunkCipher
from .host_storage import HostStorage

BUDGET_BYTES = 90_000_000  # what the first generation of SGX leaves to an enclave
CHUNK_BYTES = 1 << 20
MIN_CHUNKS = 4  # of the budget: what a loop has in hand, had before, gets next, and writes


@dataclass
class _Entry:
    """A tensor. Its name, shape and dtype are public, and when its chunks are used."""

    shape: torch.Size
    dtype: torch.dtype
    chunks: list[Chunk] = field(default_factory=list)


class SealedStore:
    """Named tensors of which at most `budget` bytes are in plain inside the enclave.

    storage: where sealed chunks go; nobody trusts it.
    measurement: that of the enclave; the key depends on it.
    root: the key of the platform; without one it is random, as for data of one run.
    The budget holds for chunks, and for tensors of `get` as long as the program keeps them.
    """

    def __init__(
        self,
        storage: HostStorage,
        *,
        measurement: bytes,
        budget: int = BUDGET_BYTES,
        chunk_bytes: int = CHUNK_BYTES,
        root: bytes | None = None,
    ) -> None:
        least = MIN_CHUNKS * (chunk_bytes + SLACK_BYTES)
        if chunk_bytes <= 0 or chunk_bytes % 16 or least > budget:
            raise ConfigError(
                f"chunk_bytes={chunk_bytes}",
                limit=f"a multiple of 16 of which {MIN_CHUNKS} fit into budget={budget}",
            )
        self._storage, self._chunk_bytes = storage, chunk_bytes
        self._cipher = ChunkCipher(measurement, root)
        self._cache = ChunkCache(storage, self._cipher, budget)
        self._entries: dict[str, _Entry] = {}
        self._lock = RLock()
        self._free_slots: list[int] = []
        self._num_slots = self._num_tensors = 0
        self._prefetcher = ThreadPoolExecutor(1, thread_name_prefix="tacit-prefetch")

    def put(self, name: str, tensor: torch.Tensor) -> None:
        """Stores a copy of a tensor; the caller's own is not counted."""
        flat = tensor.detach().contiguous().reshape(-1)
        step = self._chunk_bytes // tensor.element_size()
        pieces = (flat[start : start + step] for start in range(0, flat.numel(), step))
        self.put_chunks(name, tensor.shape, tensor.dtype, pieces)

    def put_chunks(
        self, name: str, shape: Sequence[int], dtype: torch.dtype, chunks: Iterable[torch.Tensor]
    ) -> None:
        """Stores a tensor from its chunks, flat and in order, sized as those of `chunks`.

        So `store.put_chunks("y", s, d, (f(c) for c in store.chunks("x")))` never has more than a
        few chunks in plain. An earlier tensor of this name is kept until the last chunk is here.
        """
        entry = self._layout(name, shape, dtype)
        try:
            for chunk, piece in zip_longest(entry.chunks, chunks):
                self._cache.write(chunk, _checked(piece, chunk, dtype, name, len(entry.chunks)))
        except BaseException:
            self._drop(entry)
            raise
        with self._lock:
            if name in self._entries:
                self.delete(name)
            self._entries[name] = entry

    def get(self, name: str) -> torch.Tensor:
        """Returns a whole tensor, which counts against the budget as long as it lives."""
        entry = self._entry(name)
        size = sum(chunk.size for chunk in entry.chunks)
        if not size:
            return torch.empty(entry.shape, dtype=entry.dtype)
        whole, start = torch.frombuffer(self._cache.allocate(size), dtype=entry.dtype), 0
        for chunk in self.chunks(name):
            whole[start : start + chunk.numel()] = chunk
            start += chunk.numel()
        return whole.reshape(entry.shape)

    def chunks(self, name: str, *, write: bool = False) -> Iterator[torch.Tensor]:
        """Yields the chunks of a tensor, flat and in order; the next one is opened meanwhile.

        A chunk is the store's own memory, valid until the next one is asked for. With `write`,
        what the caller writes into it is kept; without, it must not be written.
        """
        entry = self._entry(name)
        waiting = list(reversed(entry.chunks))
        ahead = self._fetch_next(waiting)
        try:
            while ahead is not None:
                chunk = ahead.take(write=write)
                ahead = self._fetch_next(waiting)
                try:
                    yield chunk.tensor_of(entry.dtype)
                finally:
                    self._cache.release(chunk)
        finally:
            if ahead is not None:
                ahead.cancel()

    def delete(self, name: str) -> None:
        """Forgets a tensor."""
        with self._lock:
            self._drop(self._entry(name))
            del self._entries[name]

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def counters(self) -> SealedCounters:
        """Returns what was counted and measured so far."""
        return self._cache.counters()

    def close(self) -> None:
        """Overwrites the key and the plaintext that nobody uses; nothing can be read any more."""
        self._prefetcher.shutdown()
        with self._lock:
            for entry in self._entries.values():
                self._drop(entry)
            self._entries.clear()
        self._cipher.close()
        self._storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fetch_next(self, waiting: list[Chunk]) -> Ahead | None:
        return Ahead(self._cache, waiting.pop(), self._prefetcher) if waiting else None

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
            raise ConfigError(f"no tensor {name!r} is in the sealed store")
        return self._entries[name]

    def _layout(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> _Entry:
        """Returns an entry with a place for every chunk, which nothing was written to yet."""
        entry = _Entry(torch.Size(shape), dtype)
        size = math.prod(shape) * dtype.itemsize
        with self._lock:
            self._num_tensors += 1
            for index, start in enumerate(range(0, size, self._chunk_bytes)):
                length = min(self._chunk_bytes, size - start)
                entry.chunks.append(Chunk(name, self._num_tensors, index, length, self._slot()))
        return entry

    def _slot(self) -> int:
        if not self._free_slots:
            self._free_slots.append(self._num_slots)
            self._num_slots += 1
        return self._free_slots.pop()

    def _drop(self, entry: _Entry) -> None:
        with self._lock:
            self._cache.drop(entry.chunks)
            self._free_slots += [chunk.slot for chunk in entry.chunks]


def _checked(
    piece: torch.Tensor | None, chunk: Chunk | None, dtype: torch.dtype, name: str, num_chunks: int
) -> torch.Tensor:
    """Returns the bytes of a piece, flat, if it fits its chunk."""
    if piece is None or chunk is None:
        fault = "fewer" if piece is None else "more"
        raise ConfigError(f"{fault} chunks than {num_chunks} were given for tensor {name!r}")
    data = piece.detach().contiguous().reshape(-1).view(torch.uint8)
    if piece.dtype != dtype or data.numel() != chunk.size:
        raise ConfigError(
            f"it was given {data.numel()} bytes of {piece.dtype}",
            limit=f"{chunk.size} bytes of {dtype}",
        ).about(chunk.place())
    return data
