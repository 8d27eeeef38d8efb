"""Enclaves whose memory is limited, and what really lies in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tacit.enclave.trusted.chunk_transfers import ChunkTransfers
from tacit.enclave.trusted.sealed_memory import SealedMemory
from tacit.errors import OutOfMemory


def seal_everything_always(monkeypatch) -> None:
    """Makes every memory seal all tensors as soon as no operation uses any."""
    opened = SealedMemory.opened

    @contextmanager
    def and_sealed(self, name, tensors, *, write=False) -> Iterator[None]:
        with opened(self, name, tensors, write=write):
            yield
        with suppress(OutOfMemory):  # an operation around this one uses some
            seal_everything(self)

    monkeypatch.setattr(SealedMemory, "opened", and_sealed)


def use_threads(memory: SealedMemory, count: int) -> None:
    """Makes so many threads move the chunks of a memory, however few cores there are."""
    memory._transfers.close()
    memory._transfers = ChunkTransfers(memory._lock, count)


def seal_everything(memory: SealedMemory) -> None:
    with memory.working("everything", memory.limit):
        pass
