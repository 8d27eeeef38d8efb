"""Enclaves whose memory is limited, and what really lies in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

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


def seal_everything(memory: SealedMemory) -> None:
    with memory.working("everything", memory.limit):
        pass
