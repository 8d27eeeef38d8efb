"""How long a party waits, how much it accepts, and the clock by which it waits.

All deadlines of the transport are read from a `Clock`. `connect` and `memory_meshes` take one, so a
test can drive the time itself (`tests/transport/clock.py`):

    clock = ManualClock()
    meshes = memory_meshes(2, limits=Limits(deadline=30.0), clock=clock)
    ...                 # a party waits for a message
    clock.advance(31.0) # and now raises PeerTimeout, on a machine of any speed

Short pauses between two looks at the clock are real time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, fields
from typing import Protocol

from ..errors import ConfigError

MOST_STRIPES = 32


class Clock(Protocol):
    """A monotonic clock in seconds, which threads can wait on."""

    def now(self) -> float:
        """Returns the time since some fixed moment."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Waits for the event for so many seconds; returns whether it is set."""


class SystemClock:
    """The time of this machine."""

    now = staticmethod(time.perf_counter)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)


SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on every wait (seconds) and every message (bytes) of a mesh, and on connections."""

    deadline: float = 30.0  # a peer that is dead, frozen or cut off is noticed by then
    patience: float = 3600.0  # for a peer that is alive, as its heartbeats show, and computes
    connect_deadline: float = 30.0  # all peers are connected by then
    max_message_bytes: int = 1 << 32  # tensors of one message
    max_setup_bytes: int = 1 << 20  # one message of `exchange_bytes`
    max_queued_bytes: int = 1 << 28  # waiting to be sent to one peer; then sends block
    stripes: int | None = None  # connections for large messages, each way; None: by cores; 1: none

    def __post_init__(self) -> None:
        many = self.stripes
        if many is not None and not (type(many) is int and 0 < many <= MOST_STRIPES):
            raise ConfigError(f"stripes is {many!r}", limit=f"1 to {MOST_STRIPES} connections")
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value > 0:
                raise ConfigError(f"{field.name} is {value}", limit="it must be greater than zero")
