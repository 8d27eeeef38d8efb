"""How an owner asks for a quote: a nonce to the host's port, and back a certificate with a quote.

The connection is not protected and need not be: a quote is public, and only the enclave's own,
made for this nonce, is accepted. Afterwards the owner talks TLS to the key of the certificate.
"""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ...crypto import certificate_from_der, certificate_to_der
from ...errors import AttestationRejected, ConfigError, ConnectError, ConnectTimeout
from ..first_line import QUOTE, Dial
from .measurement import Manifest
from .quote import NONCE_BYTES, Quote
from .quote_check import verify
from .sgx_dcap import SgxPolicy

MAX_ANSWER_BYTES = 1 << 21
SIZE = struct.Struct("<I")
_PAUSE = 0.2  # seconds between two attempts


@dataclass(frozen=True)
class AttestedKey:
    """The certificate of an enclave, as PEM, and the quote for its key."""

    certificate: bytes
    quote: Quote

    def encode(self) -> bytes:
        der = certificate_to_der(self.certificate)
        return SIZE.pack(len(der)) + der + self.quote.encode()

    @classmethod
    def decode(cls, data: bytes) -> AttestedKey:
        """Returns what a stranger's bytes encode; AttestationRejected if they encode none."""
        size = SIZE.unpack_from(data)[0] if len(data) >= SIZE.size else len(data)
        der, rest = data[SIZE.size : SIZE.size + size], data[SIZE.size + size :]
        try:
            certificate = certificate_from_der(der)
        except ConfigError as error:
            raise AttestationRejected(
                "the host sent no usable certificate of the enclave", cause=str(error)
            ) from error
        return cls(certificate, Quote.decode(rest))


def attest(
    address: tuple[str, int],
    expected: Manifest,
    *,
    builds: Sequence[Manifest] = (),
    allow_simulated: bool = False,
    sgx: SgxPolicy | None = None,
    seconds: float = 30.0,
    dial: Dial = socket.create_connection,
) -> bytes:
    """Returns the certificate of the enclave behind a host's address, if it runs `expected`.

    It may also run that with one of `builds`, of Tacit for other machines.

    Raises AttestationRejected by name if it is another one, see `verify`. The caller pins the
    certificate, and sends nothing to the enclave before. A host that does not answer yet is asked
    again for so many seconds. `dial` connects to an address: an enclave, which has no network,
    gives what has its host do so.
    """
    nonce = secrets.token_bytes(NONCE_BYTES)
    answer = ask_key(address, nonce, seconds=seconds, dial=dial)
    verify(
        answer.quote,
        expected,
        certificate=answer.certificate,
        nonce=nonce,
        builds=builds,
        allow_simulated=allow_simulated,
        sgx=sgx,
    )
    return answer.certificate


def ask_key(
    address: tuple[str, int],
    nonce: bytes,
    *,
    seconds: float = 30.0,
    dial: Dial = socket.create_connection,
) -> AttestedKey:
    """Returns what the host at an address says of its enclave; the caller has to `verify` it.

    Raises ConnectTimeout if it does not answer within so many seconds.
    """
    until = time.monotonic() + seconds
    while True:
        left = max(until - time.monotonic(), _PAUSE)
        try:
            return AttestedKey.decode(_ask(address, nonce, left, dial))
        except ConnectError as error:
            if time.monotonic() + _PAUSE >= until:
                raise ConnectTimeout(
                    f"{error.reason} within {seconds:g} s",
                    cause=error.cause,
                    remedy="see whether it was started, and whether its port is open",
                ) from error
        time.sleep(_PAUSE)


def _ask(address: tuple[str, int], nonce: bytes, seconds: float, dial: Dial) -> bytes:
    try:
        with dial(address, seconds) as sock:
            sock.sendall(QUOTE + nonce)
            [size] = SIZE.unpack(_read(sock, SIZE.size))
            if size > MAX_ANSWER_BYTES:
                raise AttestationRejected(
                    f"the host answers with {size} bytes", limit=f"{MAX_ANSWER_BYTES}"
                )
            return _read(sock, size)
    except OSError as error:
        raise ConnectError(
            f"the host of the enclave at {address[0]}:{address[1]} gave no quote",
            cause=error.strerror or "no answer",
        ) from error


def _read(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(min(size - len(data), 1 << 16))
        if not part:
            raise ConnectError("the connection ended amid the answer")
        data += part
    return bytes(data)
