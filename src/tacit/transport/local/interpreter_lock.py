"""Parties of one process that take turns at the interpreter.

Python lets one thread run at a time, and torch gives way to another at every call. Three parties
that queue small work on a GPU so hand the interpreter around more often than they use it. With a
turn a party runs until it waits for a message. It is good manners and no lock: whoever does not get
its turn in time goes on without, so a party that computes for long holds up nobody for long.
"""

from __future__ import annotations

from threading import Lock, local

_PATIENCE = 0.25  # s


class Turn:
    """One turn for all threads that share this object."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._mine = local()

    def take(self) -> None:
        """Waits for the turn, for a while."""
        self._mine.held = self._lock.acquire(timeout=_PATIENCE)

    def give(self) -> None:
        """Lets the others have it."""
        if getattr(self._mine, "held", False):
            self._mine.held = False
            self._lock.release()


class _NoTurn(Turn):
    """Everybody runs whenever the interpreter lets it."""

    def take(self) -> None:
        pass


NO_TURN = _NoTurn()
