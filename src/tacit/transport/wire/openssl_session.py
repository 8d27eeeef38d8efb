"""Sessions of TLS in compiled code, over the OpenSSL that Python's `ssl` is linked to.

One call passes all records that the socket takes or gives, without the interpreter's lock. Settings
and errors are those of `ssl_session`.
"""

from __future__ import annotations

import _ssl
import os
import ssl
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from socket import socket
from typing import Any, TypeVar

from torch import Tensor

from .fixed_message import FixedMessage, MessageCalls
from .frames import DIGEST_AT, OPERATION_AT
from .pinned_identity import Identity, private_file, unusable
from .tls_session import TlsSession

_Error = TypeVar("_Error", bound=ssl.SSLError)
_WANT_READ, _WANT_WRITE, _CUT, _SYSTEM = -1, -2, -3, -4  # csrc/carrier.h, Status


@cache
def load_openssl() -> Any:
    """Returns OpenSSL's functions for compiled code.

    None if there is no compiled code or that of an older build, if OpenSSL is a part of the
    interpreter or of another major version than 3, or if the library is not OpenSSL.
    """
    path = getattr(_ssl, "__file__", None)
    if path is None or not ssl.OPENSSL_VERSION.startswith("OpenSSL "):
        return None
    try:
        native = compiled()
        library = native.OpenSsl(path, ssl.OPENSSL_VERSION_NUMBER)
    except (ImportError, RuntimeError):
        return None
    return library if hasattr(native, "SliceThreads") else None


def compiled() -> Any:
    """Returns the compiled module (csrc/tls.cpp)."""
    return import_module(".openssl", __package__)


class OpenSslContext:
    """An identity in one role; see `TlsContext`."""

    def __init__(self, identity: Identity, *, server: bool) -> None:
        native = compiled()
        self._begin = native.TlsSession
        own = private_file(identity.certificate, b"\n", identity.private_key)
        try:
            with own as own_path, private_file(identity.trusted) as trusted_path:
                self._context = native.TlsContext(load_openssl(), server, own_path, trusted_path)
        except RuntimeError as error:
            raise unusable() from error

    def begin(self, sock: socket) -> tuple[TlsSession, socket]:
        return _OpenSslSession(self._begin(self._context, sock.fileno()), sock), sock


class _OpenSslSession:
    """A session of OpenSSL on the file descriptor of a socket; see `TlsSession`."""

    def __init__(self, session: Any, sock: socket) -> None:
        self._session = self.carrier = session
        self._sock = sock
        self.certificate, self.version = session.peer_certificate, session.version
        self.wait, self._read, self._write = session.wait, session.read, session.write
        self.send, self.receive = session.send, session.receive
        self.begin_bulk, self.end_bulk = session.begin_bulk, session.end_bulk

    def handshake(self) -> None:
        if not self.checked(self._session.handshake()):
            raise _cut()

    def read(self, view: memoryview, milliseconds: int = 0) -> int:
        count: int = self._read(view, milliseconds)
        return count if count > 0 else 0 if count == _CUT else self.checked(count)

    def write(self, view: memoryview, milliseconds: int = 0) -> int:
        count: int = self._write(view, milliseconds)
        return count if count > 0 else self.checked(count)

    @property
    def messages(self) -> MessageCalls:
        return self

    def message(
        self, head: bytes, tensors: Sequence[Tensor], headers: Sequence[int]
    ) -> FixedMessage:
        parts = [(x.data_ptr(), x.nbytes) for x in tensors]
        places = [*headers], OPERATION_AT, DIGEST_AT
        made: FixedMessage = compiled().Message(head, parts, *places)
        return made

    def end(self) -> socket:
        if not self.checked(self._session.end()):
            raise _cut()
        return self._sock

    def checked(self, result: int) -> int:
        """Returns a count; raises what another status means."""
        if result >= 0:
            return result
        if result == _WANT_READ:
            raise ssl.SSLWantReadError
        if result == _WANT_WRITE:
            raise ssl.SSLWantWriteError
        if result == _CUT:
            raise _cut()
        if result == _SYSTEM:
            code = self._session.system_error
            raise OSError(code, os.strerror(code))
        raise self._refusal()

    def _refusal(self) -> ssl.SSLError:
        reason, code = self._session.reason, self._session.verify_code
        if not code:
            return _ssl_error(ssl.SSLError, ssl.SSL_ERROR_SSL, reason)
        error = _ssl_error(ssl.SSLCertVerificationError, ssl.SSL_ERROR_SSL, reason)
        error.verify_code, error.verify_message = code, self._session.verify_message
        return error


def _cut() -> ssl.SSLError:
    return _ssl_error(ssl.SSLEOFError, ssl.SSL_ERROR_EOF, "unexpected eof while reading")


def _ssl_error(kind: type[_Error], number: int, reason: str) -> _Error:
    error = kind(number, reason)
    error.reason = reason
    return error
