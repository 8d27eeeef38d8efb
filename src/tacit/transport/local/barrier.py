"""A barrier for parties that are threads of one process; it sends no message and counts no cost."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ...errors import Party, PeerTimeout
from ..limits import SYSTEM_CLOCK, Clock
from .interpreter_lock import NO_LOCK, InterpreterLock

_SLICE_SECONDS = 0.25  # between two checks whether the run has ended


class Barrier:
    """Gives every party the n-th object of all parties, once all of them have come with theirs."""

    def __init__(
        self,
        parties: int,
        *,
        seconds: float,
        interpreter: InterpreterLock = NO_LOCK,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._parties, self._seconds = parties, seconds
        self._interpreter, self._clock = interpreter, clock
        self._changed = threading.Condition()
        self._number = [0] * parties
        self._objects: defaultdict[int, dict[int, Any]] = defaultdict(dict)

    def all_gather(self, rank: int, value: Any, look_around: Callable[[], None]) -> list[Any]:
        """Returns every party's object, by rank. `look_around` raises if the run has ended."""
        until = self._clock.now() + self._seconds
        with self._changed:
            number = self._number[rank] = self._number[rank] + 1
            objects = self._objects[number]
            objects[rank] = value
            self._changed.notify_all()
        while not self._all_here(objects):
            look_around()
            if self._clock.now() > until:
                missing = next(r for r in range(self._parties) if r not in objects)
                raise PeerTimeout(
                    Party(missing) + f" has not come to the same call for {self._seconds} s",
                    remedy="all parties must run the same program",
                    party=missing,
                )
        self._objects.pop(number - 1, None)  # all parties have read it: they are one call further
        return [objects[r] for r in range(self._parties)]

    def _all_here(self, objects: dict[int, Any]) -> bool:
        if len(objects) == self._parties:
            return True
        self._interpreter.release()
        try:
            with self._changed:
                return self._changed.wait_for(lambda: len(objects) == self._parties, _SLICE_SECONDS)
        finally:
            self._interpreter.acquire()
