"""Memory and files outside the enclave, which hold sealed chunks. Nothing of them is trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class HostStorage(Protocol):
    """Numbered places for bytes. Raises OSError where it cannot write or read."""

    def write(self, slot: int, data: bytes | bytearray) -> None:
        """Replaces what the slot holds."""

    def read(self, slot: int, size: int) -> bytes:
        """Returns up to `size` bytes of the slot; fewer if there are not as many."""
        ...

    def close(self) -> None:
        """Gives everything up."""


class MemoryStorage:
    """Slots in memory."""

    def __init__(self) -> None:
        self.slots: dict[int, bytes] = {}

    def write(self, slot: int, data: bytes | bytearray) -> None:
        self.slots[slot] = bytes(data)

    def read(self, slot: int, size: int) -> bytes:
        return self.slots.get(slot, b"")[:size]

    def close(self) -> None:
        self.slots.clear()


class FileStorage:
    """Slots of one size in one file, which is made anew."""

    def __init__(self, path: Path, slot_bytes: int) -> None:
        self._slot_bytes = slot_bytes
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def write(self, slot: int, data: bytes | bytearray) -> None:
        start, view = slot * self._slot_bytes, memoryview(data)
        while view:
            done = os.pwrite(self._file, view, start)
            start, view = start + done, view[done:]

    def read(self, slot: int, size: int) -> bytes:
        parts, start = [], slot * self._slot_bytes
        while size and (part := os.pread(self._file, size, start)):
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return b"".join(parts)

    def close(self) -> None:
        os.close(self._file)
