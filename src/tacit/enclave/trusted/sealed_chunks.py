"""Chunks of memory on their way out of the enclave and back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, local
from time import perf_counter

from ...errors import SealedChunkRejected
from .chunk_cipher import SLACK_BYTES, TAG_BYTES, ChunkCipher
from .host_storage import HostStorage
from .pages import view


@dataclass(eq=False)
class Chunk:
    """A part of a tensor's memory: where it is, its place outside, and the version there."""

    name: str  # of its tensor
    tensor: int
    index: int
    address: int
    size: int
    slot: int = -1  # none yet
    version: int = 0  # 0: it was never sealed
    is_inside: bool = False
    is_written: bool = False  # since it was sealed
    users: int = 0  # as long as there are any it stays inside
    is_moving: bool = False  # it is being sealed or opened, and nobody else touches it
    error: BaseException | None = None  # what was wrong then; for whoever uses the chunk next

    @property
    def is_outside(self) -> bool:
        """Whether it can be opened: there is a sealed copy, and nothing else."""
        return self.slot >= 0 and not (self.is_inside or self.is_moving or self.error)

    def place(self) -> str:
        return f"tensor {self.name}, chunk {self.index}"


class SealedChunks:
    """Seals chunks into slots of the host's storage, and opens them again; counts both.

    Several threads may do so at a time, each with other chunks.
    """

    def __init__(self, storage: HostStorage, cipher: ChunkCipher) -> None:
        self._storage, self._cipher = storage, cipher
        self._of_thread = local()  # a copy of a sealed chunk, which the host cannot change here
        self._lock = Lock()  # of the slots and counters
        self._free_slots: list[int] = []
        self._num_slots = 0
        self.opened = self.bytes_sealed = self.bytes_opened = 0
        self.seconds_sealing = self.seconds_opening = 0.0

    def seal(self, chunk: Chunk) -> None:
        """Stores a chunk outside, unless it is there already; it is still inside."""
        if not chunk.is_written:
            return
        start, sealed = perf_counter(), self._sealed(chunk)
        with _naming(chunk, "written"), view(chunk.address, chunk.size) as plain:
            version = self._cipher.seal(plain, sealed, tensor=chunk.tensor, chunk=chunk.index)
            chunk.slot = self._slot() if chunk.slot < 0 else chunk.slot
            self._storage.write(chunk.slot, sealed)
        chunk.version, chunk.is_written = version, False
        with self._lock:
            self.bytes_sealed += chunk.size
            self.seconds_sealing += perf_counter() - start

    def open(self, chunk: Chunk) -> None:
        """Brings a chunk back to its address, where there are zeros after a failure."""
        start, sealed = perf_counter(), self._sealed(chunk)
        where = {"tensor": chunk.tensor, "chunk": chunk.index, "version": chunk.version}
        # The cipher asks for SLACK_BYTES more than it writes. It gets the address, and writes none.
        with _naming(chunk, "read"), view(chunk.address, chunk.size + SLACK_BYTES) as plain:
            count = self._storage.read(chunk.slot, sealed)
            self._cipher.open(sealed[:count], plain, **where)
        chunk.is_inside = True
        with self._lock:
            self.opened += 1
            self.bytes_opened += chunk.size
            self.seconds_opening += perf_counter() - start

    def forget(self, chunk: Chunk) -> None:
        """Gives up the place of a chunk outside."""
        if chunk.slot >= 0:
            with self._lock:
                self._free_slots.append(chunk.slot)
            chunk.slot = -1

    def close(self) -> None:
        self._cipher.close()
        self._storage.close()

    def _slot(self) -> int:
        with self._lock:
            if not self._free_slots:
                self._free_slots.append(self._num_slots)
                self._num_slots += 1
            return self._free_slots.pop()

    def _sealed(self, chunk: Chunk) -> memoryview:
        """Returns memory inside for the sealed bytes of a chunk."""
        size = chunk.size + TAG_BYTES
        copy: memoryview = getattr(self._of_thread, "copy", memoryview(b""))
        if len(copy) < size:
            copy = self._of_thread.copy = memoryview(bytearray(size))
        return copy[:size]


@contextmanager
def _naming(chunk: Chunk, verb: str) -> Iterator[None]:
    """Names the tensor and the chunk in errors of the cipher and of the host's storage."""
    try:
        yield
    except SealedChunkRejected as error:
        raise error.about(chunk.place()) from None
    except OSError as error:
        raise SealedChunkRejected(
            f"it cannot be {verb}",
            cause=os.strerror(error.errno) if error.errno else "the host's storage failed",
            remedy="the host has to give more space, or another place",
        ).about(chunk.place()) from error
