"""TLS 1.3 with certificates on both sides, each pinned by its public key.

NOTE [renewal] AES-GCM may encrypt about 2^34 blocks under one key (RFC 8446, 5.5: 2^24.5 records of
16 KiB), and Python's `ssl` cannot ask for a new key. So both ends of a connection replace TLS
when RENEW_BYTES have passed in the direction of the tensors. It begins if the sender has more to
send: it sends one byte, RENEW. The receiver ends its side when it reads that; the sender reads what
was still under way against the flow, and ends its own; then they shake hands anew, on the same TCP
connection and for the same pinned key. Nobody waits in a call: reads and writes return 0 while it
lasts, and each takes it a step further. As long as the receiver computes and reads nothing, its
heartbeats and its last word pass as before. As long as the sender has nothing to send, too.
"""

from __future__ import annotations

import errno
import select
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from socket import socket
from typing import Any

from cryptography import x509
from torch import Tensor

from ...errors import CertificateRejected, ConnectError, FrameRejected, TransportError
from .fixed_message import TAKEN, FixedMessage
from .openssl_session import OpenSslContext, load_openssl
from .pinned_identity import Identity, pin
from .ssl_session import SslContext
from .tcp import PATIENCE, Part, TcpStream, ready
from .tls_session import TlsContext, TlsSession

_DATED = (9, 10)  # OpenSSL: not yet valid, expired
_RECORD_BYTES = 1 << 14  # the most that TLS encrypts at one time
_MAX_TRANSFER = 1 << 22  # bytes under one hold of a stream's lock
RENEW_BYTES = 1 << 36  # 2^32 blocks; see NOTE [renewal]
_PATIENCE_MS = round(PATIENCE * 1e3)
_HOLD_MS = 20  # that a patient call holds a stream's lock while it waits for more records
_RENEW = b"R"
_MAX_EARLY = 1 << 20  # bytes of heartbeats and last words while a renewal is under way
_WORD_SECONDS = 1.0  # that a heartbeat or a last word waits for a renewal


class Credentials:
    """What an identity is for TLS: contexts for both roles and a pin for each rank."""

    def __init__(self, identity: Identity) -> None:
        self.pins = identity.pins()
        kind = SslContext if load_openssl() is None else OpenSslContext
        self._server: TlsContext = kind(identity, server=True)
        self._client: TlsContext = kind(identity, server=False)

    def stream(self, sock: socket, *, server: bool) -> TlsStream:
        """A connected socket under TLS, before its handshake."""
        context = self._server if server else self._client
        try:
            return TlsStream(context, *context.begin(sock))
        except OSError as error:
            if isinstance(error, TransportError):
                raise
            raise refusal(error) from error


class TlsStream(TcpStream):
    """A stream under TLS. The lock lets the mesh listen for a last word while a sender writes."""

    def __init__(self, context: TlsContext, session: TlsSession, sock: socket) -> None:
        super().__init__(sock)
        self._context = context
        self._use(session)
        self._lock = threading.Lock()
        self._closed = self._is_bulk = False
        self._sending: bool | None = None  # whether tensors flow away from here, once they do
        self._left = 0  # bytes in that direction until the next renewal
        self._step: Callable[[], None] | None = None  # of the renewal under way
        self._early = bytearray()  # what came against the flow during a renewal
        self.renewals = 0

    def _use(self, session: TlsSession) -> None:
        """Passes everything through this session from now on."""
        self._tls, self._calls = session, session.messages

    def begin_flow(self, *, sending: bool) -> None:
        self._sending, self._left = sending, RENEW_BYTES

    def carry_bulk(self) -> None:
        self._is_bulk = True
        self._tls.begin_bulk()

    def close(self) -> None:
        """Under the lock: a TLS socket closed in the middle of a call would send in the clear."""
        with self._lock:
            self._closed = True
            super().close()

    def shake(self, seconds: float) -> None:
        """Shake hands; the other side then holds one of the pinned keys."""
        until = time.monotonic() + max(seconds, 1e-3)
        try:
            self._sock.setblocking(False)
            while (event := self._shake_on()) is not None:
                if not ready(self._sock, event, until - time.monotonic()):
                    raise TimeoutError
        except OSError as error:
            raise refusal(error) from error
        self.pin, self.expires = self._certificate()

    def _shake_on(self) -> int | None:
        """Takes the handshake further; returns the event that it waits for, or None at its end."""
        try:
            self._tls.handshake()
        except ssl.SSLWantReadError:
            return select.POLLIN
        except ssl.SSLWantWriteError:
            return select.POLLOUT
        return None

    def _certificate(self) -> tuple[bytes, datetime]:
        """Returns the pin of the other side's certificate, and the end of its validity."""
        try:
            certificate = x509.load_der_x509_certificate(self._tls.certificate())
            return pin(certificate), certificate.not_valid_after_utc
        except Exception as error:  # whatever the parser makes of what a pinned party signed
            raise CertificateRejected("the certificate of the other side cannot be read") from error

    def read(self, view: memoryview, *, patient: bool = False, whole: bool = False) -> int:
        if patient and not self._early:
            self._tls.wait(_PATIENCE_MS)
        return self._transfer(view, True, _HOLD_MS if patient and whole else 0)

    def write(self, parts: Sequence[Part], *, patient: bool = False) -> int:
        view = memoryview(parts[0])
        if count := self._transfer(view, False, _HOLD_MS if patient else 0):
            return count
        until = time.monotonic() + (_WORD_SECONDS if self._sending is False else 0.0)
        while not count and (patient or (self._step and time.monotonic() < until)):
            is_ready = ready(self._sock, select.POLLIN if self._step else select.POLLOUT, PATIENCE)
            count = self._transfer(view, False) if is_ready else 0
            if patient:
                break
        return count

    def message(
        self, head: bytes, tensors: Sequence[Tensor], headers: Sequence[int] = (0,)
    ) -> FixedMessage | None:
        return None if self._calls is None else self._calls.message(head, tensors, headers)

    def send_message(self, message: FixedMessage, operation: int, digest: bytes) -> int:
        try:
            with self._lock:
                calls = self._calls
                assert calls is not None  # it has made the message
                if self._closed or self._step or self._early or self._left <= message.size:
                    return 0  # or a renewal is due before so many bytes
                done = calls.send(message, operation, digest)
                if done <= 0:
                    return calls.checked(done)
                self._left -= done
                return done
        except OSError as error:
            return self._nothing_passed(error)

    def receive_message(
        self, message: FixedMessage, operation: int, digest: bytes, buffer: memoryview
    ) -> int | None:
        if self._early or not self._tls.wait(_PATIENCE_MS):
            return 0
        try:
            with self._lock:
                calls = self._calls
                assert calls is not None  # it has made the message
                if self._closed or self._step or self._early or self._left <= message.size:
                    return 0
                done = calls.receive(message, operation, digest, buffer, _HOLD_MS)
                if done == TAKEN:
                    self._left -= message.size
                    return None
                if done <= 0 and not calls.checked(done):
                    raise self.lost(None)
                self._left -= done
                return done
        except OSError as error:
            return self._nothing_passed(error)

    def is_lent(self, size: int) -> bool:
        """Returns False if TLS is not compiled, or a renewal is due before so many bytes."""
        with self._lock:
            is_idle = not (self._closed or self._step or self._early)
            return self._calls is not None and is_idle and self._left > size

    def lend(self, size: int) -> Any:
        with self._lock:
            assert self._calls is not None  # `is_lent` has told
            self._left -= size
            return self._calls.carrier

    def failure(self, status: int) -> TransportError:
        try:
            assert self._calls is not None  # it has returned the status
            self._calls.checked(status)
        except OSError as error:
            return self.lost(error)
        return self.lost(None)

    def readable(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self._early:  # which a renewal in another thread may fill at any time
            left = until - time.monotonic()
            if super().readable(min(left, PATIENCE)):
                return True
            if left <= PATIENCE:
                break
        return bool(self._early)

    def holds_bytes(self) -> bool:
        return bool(self._early)

    def _transfer(self, view: memoryview, reading: bool, milliseconds: int = 0) -> int:
        """Go on as long as whole records pass; 0 means that the socket would block.

        With `milliseconds` it waits for more records, so long at most: others wait for the lock.
        """
        try:
            with self._lock:
                if self._closed:
                    raise OSError(errno.EBADF, "this side has closed it")
                if not self._left:
                    self._begin_renewal(reading)
                if self._step is not None:
                    self._renew()
                if reading and self._early:
                    return self._take_early(view)
                flows = self._sending is not None and reading is not self._sending
                if self._step is not None or (flows and not self._left):
                    return 0
                return self._pass_records(view, reading, flows, milliseconds)
        except OSError as error:
            return self._nothing_passed(error)

    def _nothing_passed(self, error: OSError) -> int:
        """Returns 0 if a call would have to wait; raises what else has happened."""
        if isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError):
            return 0
        if isinstance(error, TransportError):
            raise error
        raise self.lost(error) from error

    def _pass_records(self, view: memoryview, reading: bool, flows: bool, milliseconds: int) -> int:
        end = min(_MAX_TRANSFER, self._left) if flows else _MAX_TRANSFER
        part = view[:end] if len(view) > end else view
        pass_on = self._tls.read if reading else self._tls.write
        done = pass_on(part, milliseconds)
        if not done:
            raise self.lost(None)
        if flows:
            self._left -= done
        return done

    # Renewal: a step returns when it is complete, and raises if it would block --------------------

    def _begin_renewal(self, reading: bool) -> None:
        """Begins a renewal if it is due and the sender has more to send; see NOTE [renewal]."""
        if self._step or self._sending is None or reading is self._sending:
            return
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if self._sending:
                self._tls.write(memoryview(_RENEW))
                self._tls.end_bulk()
                self._step = self._drain
                return
            mark = bytearray(len(_RENEW))
            if not self._tls.read(memoryview(mark)):
                raise self.lost(None)
            if mark != _RENEW:
                raise FrameRejected("bytes beyond a renewal of TLS", party=self.peer)
            self._tls.end_bulk()
            self._step = self._end

    def _renew(self) -> None:
        """Takes a renewal as far as it goes without waiting; see NOTE [renewal]."""
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            while self._step is not None:
                self._step()

    def _drain(self) -> None:
        """The sender reads against the flow until the receiver has ended its side."""
        view = memoryview(bytearray(_RECORD_BYTES))
        while count := self._tls.read(view):
            self._early += view[:count]
            if len(self._early) > _MAX_EARLY:
                raise FrameRejected(
                    f"more than {_MAX_EARLY} bytes against the flow in a renewal of TLS",
                    party=self.peer,
                )
        self._step = self._end

    def _end(self) -> None:
        """Ends TLS on this side and begins it anew."""
        session, self._sock = self._context.begin(self._tls.end())
        self._use(session)
        self._sock.setblocking(False)
        self._step = self._shake_again

    def _shake_again(self) -> None:
        self._tls.handshake()
        if self._certificate()[0] != self.pin:
            raise CertificateRejected("the other side has another key after a renewal of TLS")
        if self._is_bulk:
            self._tls.begin_bulk()
        self._step, self._left = None, RENEW_BYTES
        self.renewals += 1

    def _take_early(self, view: memoryview) -> int:
        count = min(len(view), len(self._early))
        view[:count] = self._early[:count]
        del self._early[:count]
        return count

    def lost(self, error: OSError | None) -> TransportError:
        """Before the hello a certificate may turn out to be refused; later there is only an end."""
        refused = self.peer is None and isinstance(error, ssl.SSLError)
        if error and refused:
            return refusal(error)
        return super().lost(None if isinstance(error, ssl.SSLEOFError) else error)


def refusal(error: OSError) -> TransportError:
    """What a failed TLS handshake means: a matter of certificates, or a broken connection."""
    why = str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or "no answer")
    why = why.lower().replace("_", " ")
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _DATED:
            return CertificateRejected(
                f"the certificate of the other side is not valid now: {why}",
                remedy="compare the clocks, or let it make a new one",
            )
        return CertificateRejected(f"the certificate of the other side is not pinned here: {why}")
    if "alert" in why and ("certificate" in why or "unknown ca" in why):
        return CertificateRejected(f"the other side does not accept this certificate: {why}")
    return ConnectError(f"no TLS connection: {why}")
