"""TLS on one connected socket, between a handshake and its end.

There are two implementations with the same settings. `openssl_session` passes records in compiled
code, without the interpreter's lock. Where that is not possible, `ssl_session` uses Python's `ssl`.
Either speaks with either.
"""

from __future__ import annotations

from socket import socket
from typing import Protocol

from .fixed_message import MessageCalls


class TlsSession(Protocol):
    """A session on a socket that does not block.

    A call that would wait raises ssl.SSLWantReadError or ssl.SSLWantWriteError; one that fails, an
    ssl.SSLError or another OSError. One thread at a time may use a session.
    """

    @property
    def messages(self) -> MessageCalls | None:
        """The calls for fixed messages, where there is compiled code for them."""

    def handshake(self) -> None:
        """Takes the handshake as far as it goes; returns when it is complete."""

    def certificate(self) -> bytes:
        """Returns the certificate of the other side (DER)."""

    def version(self) -> str | None:
        """Returns the version of TLS in use."""

    def read(self, view: memoryview, milliseconds: int = 0) -> int:
        """Reads as many whole records as are here; 0 means that the other side has ended.

        With `milliseconds` it may wait so long for more, until the view is full.
        """

    def wait(self, milliseconds: int) -> bool:
        """Returns whether there is something to read, or an end, after so long at most.

        For any thread.
        """

    def write(self, view: memoryview, milliseconds: int = 0) -> int:
        """Writes as many whole records as the socket takes; the next call continues with the rest.

        A record that was begun is finished by the next call, which must bring the same bytes. With
        `milliseconds` it may wait so long for the socket to take more, until all is written.
        """

    def begin_bulk(self) -> None:
        """Lets many records pass in one call of the system, if it can, after the handshake.

        A write then sends all that it takes before it returns, and polls of the socket do not tell
        what can be read. `end_bulk` comes before the end of TLS.
        """

    def end_bulk(self) -> None:
        """Takes only what belongs to this session from the socket, from now on."""

    def end(self) -> socket:
        """Ends TLS on this side; returns the plain socket when the other side has ended it, too."""


class TlsContext(Protocol):
    """An identity in the role of a client or of a server."""

    def begin(self, sock: socket) -> tuple[TlsSession, socket]:
        """Returns a session before its handshake, and the socket to poll and to close."""
