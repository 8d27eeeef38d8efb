"""Memory and files outside the enclave, which hold sealed chunks. Nothing of them is trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class HostStorage(Protocol):
    """Numbered places for bytes. Raises OSError where it cannot write or read."""

    def write(self, slot: int, data: memoryview) -> None:
        """Replaces what the slot holds by a copy of the data."""

    def read(self, slot: int, into: memoryview) -> int:
        """Copies the slot's first bytes; returns their number, fewer if there are not as many."""
        ...

    def close(self) -> None:
        """Gives everything up."""


class MemoryStorage:
    """Slots in memory."""

    def __init__(self) -> None:
        self.slots: dict[int, bytearray] = {}

    def write(self, slot: int, data: memoryview) -> None:
        self.slots.setdefault(slot, bytearray())[:] = data

    def read(self, slot: int, into: memoryview) -> int:
        held = memoryview(self.slots.get(slot, b""))[: len(into)]
        into[: len(held)] = held
        return len(held)

    def close(self) -> None:
        self.slots.clear()


class FileStorage:
    """Slots of one size in one file, which is made anew; without a path, in memory of the machine.

    Such memory lies outside of the address space of the process.
    """

    def __init__(self, path: Path | None, slot_bytes: int) -> None:
        self._slot_bytes = slot_bytes
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600) if path else os.memfd_create("tacit-sealed")

    def write(self, slot: int, data: memoryview) -> None:
        start = slot * self._slot_bytes
        while data:
            done = os.pwrite(self._file, data, start)
            start, data = start + done, data[done:]

    def read(self, slot: int, into: memoryview) -> int:
        start, rest = slot * self._slot_bytes, into
        while rest and (done := os.preadv(self._file, [rest], start)):
            start, rest = start + done, rest[done:]
        return len(into) - len(rest)

    def close(self) -> None:
        os.close(self._file)
