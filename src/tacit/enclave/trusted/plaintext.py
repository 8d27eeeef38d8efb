"""Buffers of plaintext that are counted against a budget, and overwritten when they are freed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ...crypto import wipe
from ...errors import OutOfMemory


class PlaintextBudget:
    """Counts the bytes of plaintext that live buffers hold, and refuses more than `limit`.

    A buffer counts as long as anything refers to it: a tensor that the program keeps is counted,
    too. `make_room` drops something that the caller could do without; it returns False if there is
    nothing left.
    """

    def __init__(self, limit: int, make_room: Callable[[], bool]) -> None:
        self.limit = limit
        self.peak = 0
        self._make_room = make_room
        self._held = 0
        self._freed: deque[int] = deque()  # buffers may be freed in any thread, at any moment

    @property
    def resident(self) -> int:
        """The bytes of plaintext in memory now."""
        while self._freed:
            self._held -= self._freed.popleft()
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
        self._held += size
        self.peak = max(self.peak, self.resident)
        return PlaintextBuffer(size, self._freed)


class PlaintextBuffer(bytearray):
    """Memory of a fixed size; the end of its last reference overwrites it."""

    __slots__ = ("_freed",)

    def __init__(self, size: int, freed: deque[int]) -> None:
        super().__init__(size)
        self._freed = freed

    def __del__(self) -> None:
        wipe(self)
        self._freed.append(len(self))
