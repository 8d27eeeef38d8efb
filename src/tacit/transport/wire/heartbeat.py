"""What goes against the flow of a connection: heartbeats, and in the end one last word."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from ...errors import TransportError
from ..channel import LastWord
from .control import beat, encode
from .tcp import TcpStream

BEATS = 5  # within a deadline
_STOP_SECONDS = 1.0


class Pulse:
    """Tells the sender at the other end that this party is alive, whatever its mesh is busy with.

    A heartbeat waits until the one before has arrived: so many of them never fill a connection
    whose other end reads nothing, and there is always room for a last word.
    """

    def __init__(
        self,
        stream: TcpStream,
        session: bytes,
        *,
        peer: int,
        seconds: float,
        stuck: Callable[[], bool],
    ) -> None:
        self._stream, self._session = stream, session
        self._seconds, self._stuck = seconds, stuck
        self._unsaid = b""
        self._speaking = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tacit-pulse-{peer}", daemon=True)
        self._thread.start()

    def say(self, word: LastWord) -> None:
        """Best effort, at once; no heartbeat follows."""
        with self._speaking, suppress(TransportError):
            self._over.set()
            self._write(encode(word, self._session))

    def stop(self) -> None:
        self._over.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        with suppress(TransportError):  # the thread of the mesh finds out by itself
            while not self._over.wait(self._seconds):
                with self._speaking:
                    if not self._over.is_set() and not self._stream.unacknowledged():
                        self._write(beat(self._session, self._stuck()))

    def _write(self, data: bytes) -> None:
        self._unsaid += data
        self._unsaid = self._unsaid[self._stream.write((self._unsaid,)) :]
