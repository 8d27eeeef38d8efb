"""Who a party is: its certificate and key, and the public keys that it believes."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ...errors import ConfigError


@dataclass(frozen=True)
class Identity:
    """How a party proves who it is, and whom it believes: PEM certificates by rank.

    second_roles: the ranks that the holder of another rank's key plays, too, with the same key.
    """

    certificate: bytes
    private_key: bytes = field(repr=False)
    peers: tuple[bytes, ...]
    second_roles: tuple[int, ...] = ()

    @property
    def trusted(self) -> bytes:
        """The certificates of all peers, each once, as one PEM text."""
        return b"\n".join(dict.fromkeys(self.peers))

    def pins(self) -> list[bytes]:
        """Returns the pin of each rank; two ranks have different ones unless both are known."""
        pins = [_pinned(certificate) for certificate in self.peers]
        for rank, key in enumerate(pins):
            first = pins.index(key)
            if first != rank and rank not in self.second_roles:
                raise ConfigError(f"parties {first} and {rank} have the same public key")
        return pins


def pin(certificate: x509.Certificate) -> bytes:
    """The SHA-256 of a certificate's public key (SubjectPublicKeyInfo)."""
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).digest()


def _pinned(certificate: bytes) -> bytes:
    try:
        return pin(x509.load_pem_x509_certificate(certificate))
    except Exception as error:  # whatever the parser makes of it
        raise ConfigError("a peer's certificate in the identity is not PEM") from error


def unusable() -> ConfigError:
    """The error of an identity that OpenSSL cannot use."""
    return ConfigError(
        "the identity's certificate and private key must be PEM, unencrypted, and a pair"
    )


@contextmanager
def private_file(*parts: bytes) -> Iterator[str]:
    """A path for OpenSSL to read PEM from; on Linux it is memory and never a file."""
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("identity"), "wb", buffering=0) as memory:
            memory.writelines(parts)
            yield f"/proc/self/fd/{memory.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(buffering=0) as file:
            file.writelines(parts)
            yield file.name
