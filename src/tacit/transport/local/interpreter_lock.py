"""A cooperative lock for parties that are threads of one process.

Python runs one thread at a time, and torch switches threads at every call. Three parties that queue
small kernels on a GPU then switch more often than they compute. With this lock a party runs until
it waits for a message. The lock is advisory: a party that does not get it in time continues without
it, so a party that computes for long delays the others only briefly.
"""

from __future__ import annotations

from threading import Lock, local

_MAX_WAIT_SECONDS = 0.25


class InterpreterLock:
    """One advisory lock for all threads that share this object."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread = local()

    def acquire(self) -> None:
        """Waits for the lock, at most `_MAX_WAIT_SECONDS`."""
        self._thread.holds = self._lock.acquire(timeout=_MAX_WAIT_SECONDS)

    def release(self) -> None:
        """Releases the lock if this thread holds it."""
        if getattr(self._thread, "holds", False):
            self._thread.holds = False
            self._lock.release()


class _NoLock(InterpreterLock):
    """Does not lock: threads switch whenever the interpreter lets them."""

    def acquire(self) -> None:
        pass


NO_LOCK = _NoLock()
