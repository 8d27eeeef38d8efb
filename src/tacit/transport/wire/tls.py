"""TLS 1.3 with certificates on both sides, each pinned by its public key."""

from __future__ import annotations

import errno
import hashlib
import os
import select
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from socket import socket

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ...errors import CertificateRejected, ConfigError, ConnectError, TransportError
from .tcp import PATIENCE, Part, TcpStream, ready

_DATED = (9, 10)  # OpenSSL: not yet valid, expired
_RECORD_BYTES = 1 << 14  # the most that TLS encrypts at one time
_MAX_TRANSFER = 1 << 20  # bytes under one hold of a stream's lock


@dataclass(frozen=True)
class Identity:
    """How a party proves who it is, and whom it believes: PEM certificates by rank."""

    certificate: bytes
    private_key: bytes = field(repr=False)
    peers: tuple[bytes, ...]


class Credentials:
    """What an identity is for TLS: contexts for both roles and a pin for each rank."""

    def __init__(self, identity: Identity) -> None:
        self.pins = [_pinned(certificate) for certificate in identity.peers]
        for rank, key in enumerate(self.pins):
            if (first := self.pins.index(key)) != rank:
                raise ConfigError(f"parties {first} and {rank} have the same public key")
        self._server = _context(ssl.PROTOCOL_TLS_SERVER, identity)
        self._server.num_tickets = 0  # nothing flows against the data
        self._client = _context(ssl.PROTOCOL_TLS_CLIENT, identity)

    def stream(self, sock: socket, *, server: bool) -> TlsStream:
        """A connected socket under TLS, before its handshake."""
        context = self._server if server else self._client
        try:
            tls = context.wrap_socket(sock, server_side=server, do_handshake_on_connect=False)
        except OSError as error:
            sock.close()
            _close_unfinished(error)
            raise refusal(error) from error
        return TlsStream(tls)


class TlsStream(TcpStream):
    """A stream under TLS. The lock lets the mesh listen for a last word while a sender writes."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        super().__init__(sock)
        self._tls = sock
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Under the lock: a TLS socket closed in the middle of a call would send in the clear."""
        with self._lock:
            self._closed = True
            super().close()

    def shake(self, seconds: float) -> None:
        """Shake hands; the other side then holds one of the pinned keys."""
        try:
            self._tls.settimeout(max(seconds, 1e-3))
            self._tls.do_handshake()
            self._tls.setblocking(False)
        except OSError as error:
            raise refusal(error) from error
        try:
            encoded = self._tls.getpeercert(binary_form=True)
            certificate = x509.load_der_x509_certificate(encoded or b"")
            self.pin, self.expires = pin(certificate), certificate.not_valid_after_utc
        except Exception as error:  # whatever the parser makes of what a pinned party signed
            raise CertificateRejected("the certificate of the other side cannot be read") from error

    def read(self, view: memoryview, *, patient: bool = False) -> int:
        count = self._transfer(self._tls.recv_into, view)
        if not count and patient and self.readable(PATIENCE):
            count = self._transfer(self._tls.recv_into, view)
        return count

    def write(self, parts: Sequence[Part], *, patient: bool = False) -> int:
        view = memoryview(parts[0])
        count = self._transfer(self._tls.send, view)
        if not count and patient and ready(self._tls, select.POLLOUT, PATIENCE):
            count = self._transfer(self._tls.send, view)
        return count

    def _transfer(self, call: Callable[[memoryview], int], view: memoryview) -> int:
        """Go on as long as whole records pass; 0 means that the socket would block."""
        done, count = 0, _RECORD_BYTES
        try:
            with self._lock:
                if self._closed:
                    raise OSError(errno.EBADF, "this side has closed it")
                while count == _RECORD_BYTES and done < min(len(view), _MAX_TRANSFER):
                    count = call(view[done:])
                    done += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return done
        except OSError as error:
            raise self.lost(error) from error
        if not done:
            raise self.lost(None)
        return done

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


def pin(certificate: x509.Certificate) -> bytes:
    """The SHA-256 of a certificate's public key (SubjectPublicKeyInfo)."""
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).digest()


def _pinned(certificate: bytes) -> bytes:
    try:
        return pin(x509.load_pem_x509_certificate(certificate))
    except Exception as error:  # whatever the parser makes of it
        raise ConfigError("a peer's certificate in the identity is not PEM") from error


def _context(role: int, identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(role)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # a party is its key, wherever it runs
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=b"\n".join(identity.peers).decode("ascii"))
        with _private_file(identity.certificate + b"\n" + identity.private_key) as path:
            context.load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            "the identity's certificate and private key must be PEM, unencrypted, and a pair"
        ) from error
    return context


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """A path for OpenSSL to read a key from; on Linux it is memory and never a file."""
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("identity"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


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
