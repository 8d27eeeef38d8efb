"""What receivers send against the flow of a connection: heartbeats, and in the end a last word."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from ...errors import TransportError
from ..channel import LastWord
from ..limits import SYSTEM_CLOCK, Clock
from .control import beat, encode
from .tcp import TcpStream

BEATS_PER_DEADLINE = 5
_STOP_SECONDS = 1.0


class Heartbeat:
    """A thread that tells the peer every `seconds` that this party is alive, also if it computes.

    A heartbeat is sent only when the one before has arrived. So heartbeats never fill a connection
    whose other end reads nothing, and there is always space for a last word.
    """

    def __init__(
        self,
        stream: TcpStream,
        session: bytes,
        *,
        peer: int,
        seconds: float,
        stuck: Callable[[], bool],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._stream, self._session, self._clock = stream, session, clock
        self._seconds, self._stuck = seconds, stuck
        self._unsent = b""
        self._writing = threading.Lock()
        self._over = threading.Event()
        name = f"tacit-heartbeat-{peer}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def say(self, word: LastWord) -> None:
        """Sends a last word at once, best effort; no heartbeat follows it."""
        with self._writing, suppress(TransportError):
            self._over.set()
            self._write(encode(word, self._session))

    def stop(self) -> None:
        """Ends the thread."""
        self._over.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        with suppress(TransportError):  # the thread of the mesh finds out by itself
            while not self._clock.wait(self._over, self._seconds):
                with self._writing:
                    if not self._over.is_set() and not self._stream.unacknowledged():
                        self._write(beat(self._session, self._stuck()))

    def _write(self, data: bytes) -> None:
        self._unsent += data
        self._unsent = self._unsent[self._stream.write((self._unsent,)) :]
