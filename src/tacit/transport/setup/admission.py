"""Connections whose handshake is not finished, and those that were refused.

Anybody can connect to a party's port. A connection stays here until TLS has shown whose key the
other side holds; strangers are bounded in number and refused by name.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import CertificateRejected, Party, TransportError
from ..wire.tcp import TcpStream
from ..wire.tls import Credentials

_MAX_UNFINISHED = 32  # accepted connections with an unfinished handshake
_MAX_REPORTED = 5  # refused connections in an error
_MAX_LOGGED = 100  # different refusals; a flood of strangers must not flood the log
_log = logging.getLogger("tacit")


class Admission:
    """The connections with an unfinished handshake; all of them can be closed at any time."""

    def __init__(self, credentials: Credentials | None) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()
        self._unfinished: dict[TcpStream, bool] = {}  # whether it was accepted, oldest first
        self._closed = False

    def enter(self, sock: socket.socket, *, server: bool) -> TcpStream:
        """Returns a stream before its handshake; of too many accepted ones it closes the oldest."""
        secure = self._credentials.stream if self._credentials else TcpStream
        stream = secure(sock, server=server)
        with self._lock:
            strangers = [s for s, accepted in self._unfinished.items() if accepted]
            if server and len(strangers) >= _MAX_UNFINISHED:
                strangers[0].cut()
                del self._unfinished[strangers[0]]
            self._unfinished[stream] = server
            if self._closed:
                stream.cut()
        return stream

    @contextmanager
    def handshake(self, stream: TcpStream, *, seconds: float) -> Iterator[None]:
        """Secures a stream within so many seconds; closes it if the rest of the handshake fails."""
        try:
            stream.shake(seconds)
            yield
        except BaseException:
            stream.close()
            raise
        finally:
            self.leave(stream)

    def leave(self, stream: TcpStream) -> None:
        """From here on `close` does not cut this stream."""
        with self._lock:
            self._unfinished.pop(stream, None)

    def close(self) -> None:
        """Cuts all connections that are here, and all that come later."""
        with self._lock:
            self._closed = True
            for stream in self._unfinished:
                stream.cut()

    def ranks_of(self, stream: TcpStream) -> tuple[int, ...]:
        """Returns the ranks whose key the other side holds, one or two; none without TLS.

        TLS also accepts a certificate that a pinned party signed for another key: this does not.
        """
        if self._credentials is None:
            return ()
        if stream.pin not in self._credentials.pins:
            raise CertificateRejected("the key of the other side is not pinned here")
        return tuple(rank for rank, key in enumerate(self._credentials.pins) if key == stream.pin)

    def require(self, stream: TcpStream, peer: int) -> None:
        """Raises CertificateRejected unless the other side holds the key of a party."""
        if self._credentials and stream.pin != self._credentials.pins[peer]:
            raise CertificateRejected("the certificate there is not that of " + Party(peer))


class Refusals:
    """The connections that a party refused: in the log at once, and in the error of a timeout."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._last: deque[str] = deque(maxlen=_MAX_REPORTED)
        self._logged: set[str] = set()

    def add(self, origin: str, error: TransportError) -> None:
        """Notes that a connection from an address was refused, and why."""
        text = f"{origin} ({error})"
        if text in self._last:  # many connections of one cause must not hide others
            self._last.remove(text)
        self._last.append(text)
        if text not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(text)
            _log.warning("party %d refused a connection from %s: %s", self._rank, origin, error)

    def __str__(self) -> str:
        shown = ", ".join(self._last)
        return f"; refused meanwhile: {shown}" if shown else ""
