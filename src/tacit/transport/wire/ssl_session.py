"""Sessions of TLS by Python's `ssl`, where the compiled ones are not available.

`ssl` takes the interpreter's lock anew for each record of 16 KiB.
"""

from __future__ import annotations

import select
import ssl
from collections.abc import Callable
from socket import socket

from .pinned_identity import Identity, private_file, unusable
from .tcp import ready
from .tls_session import TlsSession

_RECORD_BYTES = 1 << 14  # the most that TLS encrypts at one time


class SslContext:
    """An identity in one role; see `TlsContext`."""

    def __init__(self, identity: Identity, *, server: bool) -> None:
        self._server = server
        self._context = context = ssl.SSLContext(
            ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
        )
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # a party is its key, wherever it runs
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if server:
            context.num_tickets = 0  # nothing flows against the data
        try:
            context.load_verify_locations(cadata=identity.trusted.decode("ascii"))
            with private_file(identity.certificate, b"\n", identity.private_key) as path:
                context.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError) as error:
            raise unusable() from error

    def begin(self, sock: socket) -> tuple[TlsSession, socket]:
        try:
            tls = self._context.wrap_socket(
                sock, server_side=self._server, do_handshake_on_connect=False
            )
        except OSError as error:
            sock.close()
            _close_unfinished(error)
            raise
        return _SslSession(tls), tls


class _SslSession:
    """A session on one of Python's TLS sockets; see `TlsSession`."""

    messages = None

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self._holds_bytes = False  # the last read left a part of a record
        self.handshake, self.version, self.end = sock.do_handshake, sock.version, sock.unwrap

    def certificate(self) -> bytes:
        return self._sock.getpeercert(binary_form=True) or b""

    def read(self, view: memoryview, milliseconds: int = 0) -> int:
        if milliseconds:
            self.wait(milliseconds)
        count = _pass_records(self._sock.recv_into, view)
        self._holds_bytes = self._sock.pending() > 0
        return count

    def wait(self, milliseconds: int) -> bool:
        return self._holds_bytes or ready(self._sock, select.POLLIN, milliseconds / 1e3)

    def begin_bulk(self) -> None:
        """Does nothing: Python's calls pass one record each."""

    def end_bulk(self) -> None:
        """Does nothing."""

    def write(self, view: memoryview, milliseconds: int = 0) -> int:
        if milliseconds:
            ready(self._sock, select.POLLOUT, milliseconds / 1e3)
        return _pass_records(self._sock.send, view)


def _pass_records(call: Callable[[memoryview], int], view: memoryview) -> int:
    done, count = 0, _RECORD_BYTES
    try:
        while count == _RECORD_BYTES and done < len(view):
            count = call(view[done:])
            done += count
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        if not done:
            raise
    return done


def _close_unfinished(error: OSError) -> None:
    """Closes the socket that Python leaves behind where a peer goes away while it is wrapped.

    It has taken the connection over by then, and only the frame in which it failed still knows it.
    """
    place = error.__traceback__
    while place is not None:
        left = place.tb_frame.f_locals.get("self")
        if isinstance(left, ssl.SSLSocket):
            left.close()
        place = place.tb_next
