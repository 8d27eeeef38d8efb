"""Where parties that are threads of one process meet, without a message: nothing is counted."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ...errors import PeerTimeout
from .interpreter_lock import NO_TURN, Turn

_SLICE = 0.25  # s between looks at whether the others are still there


class Meeting:
    """The n-th thing that each party lays down here is shown to all once all have laid theirs."""

    def __init__(self, parties: int, *, seconds: float, turn: Turn = NO_TURN) -> None:
        self._parties, self._seconds, self._turn = parties, seconds, turn
        self._changed = threading.Condition()
        self._number = [0] * parties
        self._laid: defaultdict[int, dict[int, Any]] = defaultdict(dict)

    def swap(self, rank: int, thing: Any, look_around: Callable[[], None]) -> list[Any]:
        """Everybody's thing, by rank. `look_around` raises if the run has ended."""
        until = time.monotonic() + self._seconds
        with self._changed:
            number = self._number[rank] = self._number[rank] + 1
            laid = self._laid[number]
            laid[rank] = thing
            self._changed.notify_all()
        while not self._all_here(laid):
            look_around()
            if time.monotonic() > until:
                missing = next(r for r in range(self._parties) if r not in laid)
                raise PeerTimeout(
                    f"party {missing} has not come to the same call for {self._seconds} s: all "
                    "parties must run the same program",
                    party=missing,
                )
        self._laid.pop(number - 1, None)  # whoever is here has seen it
        return [laid[r] for r in range(self._parties)]

    def _all_here(self, laid: dict[int, Any]) -> bool:
        if len(laid) == self._parties:
            return True
        self._turn.give()
        try:
            with self._changed:
                return self._changed.wait_for(lambda: len(laid) == self._parties, _SLICE)
        finally:
            self._turn.take()
