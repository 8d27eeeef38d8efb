"""Connections on the threshold: sockets that are being secured, some of them by strangers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import CertificateRejected
from ..wire.tcp import TcpStream
from ..wire.tls import Credentials

_MAX_GREETINGS = 32  # strangers that may stand in the door at one time


class Doorway:
    """What is neither outside nor inside yet; it can be cleared at any time."""

    def __init__(self, credentials: Credentials | None) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()
        self._shaking: dict[TcpStream, bool] = {}  # whether it was accepted, oldest first
        self._closed = False

    def enter(self, sock: socket.socket, *, server: bool) -> TcpStream:
        """A stream before its handshake. Of too many strangers in the door the first has to go."""
        secure = self._credentials.stream if self._credentials else TcpStream
        stream = secure(sock, server=server)
        with self._lock:
            strangers = [s for s, accepted in self._shaking.items() if accepted]
            if server and len(strangers) >= _MAX_GREETINGS:
                strangers[0].cut()
                del self._shaking[strangers[0]]
            self._shaking[stream] = server
            if self._closed:
                stream.cut()
        return stream

    @contextmanager
    def shaking_hands(self, stream: TcpStream, *, until: float) -> Iterator[None]:
        """Secure a stream; it is closed if the rest of the handshake fails or takes too long."""
        try:
            stream.shake(until - time.monotonic())
            yield
        except BaseException:
            stream.close()
            raise
        finally:
            self.leave(stream)

    def leave(self, stream: TcpStream) -> None:
        """From here on nobody cuts this stream."""
        with self._lock:
            self._shaking.pop(stream, None)

    def clear(self) -> None:
        """Send everybody away, for good."""
        with self._lock:
            self._closed = True
            for stream in self._shaking:
                stream.cut()

    def proved(self, stream: TcpStream) -> int | None:
        """The rank whose key the other side holds, where there are keys.

        TLS also believes a certificate that a pinned party has signed: this does not.
        """
        if self._credentials is None:
            return None
        if stream.pin not in self._credentials.pins:
            raise CertificateRejected("the key of the other side is not pinned here")
        return self._credentials.pins.index(stream.pin)

    def require(self, stream: TcpStream, peer: int) -> None:
        """Refuse whoever does not hold the key of a party, where there are keys."""
        if self._credentials and stream.pin != self._credentials.pins[peer]:
            raise CertificateRejected(f"the certificate there is not that of party {peer}")
