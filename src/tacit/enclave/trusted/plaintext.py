"""Buffers of plaintext that are counted against a budget, and overwritten when they are freed."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable

from ...crypto import wipe
from ...errors import OutOfMemory

PlaintextBuffer = ctypes.Array[ctypes.c_char]


class PlaintextBudget:
    """Counts the bytes of plaintext that live buffers hold, and refuses more than `limit`.

    A buffer counts as long as anything refers to it: a tensor that the program keeps is counted,
    too. `make_room` drops something that the caller could do without; it returns False if there is
    nothing left. Memory of freed buffers is overwritten and used again: fresh pages from the system
    cost more time than decrypting into them.
    """

    def __init__(self, limit: int, make_room: Callable[[], bool]) -> None:
        self.limit = limit
        self.peak = 0
        self._make_room = make_room
        self._held = 0
        self._freed: deque[bytearray] = deque()  # in any thread, at any moment
        self._unused: list[bytearray] = []  # overwritten
        self._unused_bytes = 0

    @property
    def resident(self) -> int:
        """The bytes of plaintext in memory now."""
        while self._freed:
            memory = self._freed.popleft()
            self._held -= len(memory)
            self._unused.append(memory)
            self._unused_bytes += len(memory)
        return self._held

    def allocate(self, size: int) -> PlaintextBuffer:
        """Returns a buffer of zeros; OutOfMemory if the budget cannot hold it."""
        while self.resident + size > self.limit:
            if not self._make_room():
                raise OutOfMemory(
                    f"{size} bytes of plaintext do not fit into the enclave's budget",
                    limit=f"{self.limit} bytes, of which the program holds {self.resident}",
                    remedy="work chunk by chunk, drop tensors that are not needed, or raise budget",
                )
        memory = self._memory(size)
        self._held += size
        self.peak = max(self.peak, self._held)
        buffer = (ctypes.c_char * size).from_buffer(memory)
        weakref.finalize(buffer, _free, memory, self._freed)
        return buffer

    def _memory(self, size: int) -> bytearray:
        """Returns unused memory of this size, or new memory; all of it stays within the limit."""
        for position, memory in enumerate(self._unused):
            if len(memory) == size:
                self._unused_bytes -= size
                return self._unused.pop(position)
        while self._unused and self._held + self._unused_bytes + size > self.limit:
            self._unused_bytes -= len(self._unused.pop())
        return bytearray(size)


def _free(memory: bytearray, freed: deque[bytearray]) -> None:
    wipe(memory)
    freed.append(memory)
