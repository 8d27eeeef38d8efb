"""A clock that a test drives: deadlines pass when the test says so, on a machine of any speed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_POLL_SECONDS = 0.02  # an event that a waiting thread looks at cannot wake it


class ManualClock:
    """A `tacit.transport.Clock` that stands still until `advance` is called."""

    def __init__(self) -> None:
        self._now = 0.0
        self.waiters = 0  # threads in `wait`
        self._changed = threading.Condition()

    def now(self) -> float:
        """Returns the seconds that were advanced so far."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Moves the time forward, and wakes the threads whose wait is over."""
        with self._changed:
            self._now += seconds
            self._changed.notify_all()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Waits until the event is set or the time has advanced so far; returns whether it is."""
        with self._changed:
            until = self._now + seconds
            self.waiters += 1
            while self._now < until and not event.is_set():
                self._changed.wait(_POLL_SECONDS)
            self.waiters -= 1
        return event.is_set()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits in real time until a condition holds; AssertionError if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(_POLL_SECONDS / 10)
