"""The file that holds a party's private key."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from ..errors import ConfigError

MOST_BYTES = 1 << 14


def read_key_file(path: Path, certificate: bytes, passphrase: str | None = None) -> bytes:
    """The private key of a PEM certificate, as PEM without encryption, from its owner's file.

    Nobody but the owner may read the file, which is checked before it is read.
    """
    key = _opened(_content(path), path, passphrase)
    owner = x509.load_pem_x509_certificate(certificate).public_key()
    if not isinstance(key, Ed25519PrivateKey) or key.public_key() != owner:
        raise ConfigError(
            f"key={str(path)!r}: this private key and the certificate are not a pair; use the file "
            "that was made together with it, or exchange the new certificate with all parties"
        )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
                raise ConfigError(f"key={str(path)!r}: this is no file of a private key")
            if status.st_mode & 0o077:
                raise ConfigError(
                    f"key={str(path)!r}: others may read this private key, its mode is "
                    f"{stat.S_IMODE(status.st_mode):04o}; allowed is 0600: chmod 600 {path}"
                )
            return file.read()
    except OSError as error:
        raise ConfigError(f"key={str(path)!r} cannot be read: {error.strerror}") from error


def _opened(content: bytes, path: Path, passphrase: str | None) -> object:
    encrypted = b"ENCRYPTED" in content
    if encrypted and not passphrase:
        raise ConfigError(f"key={str(path)!r}: this private key needs its passphrase")
    secret = passphrase.encode() if passphrase and encrypted else None
    try:
        return load_pem_private_key(content, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # their messages might quote the file
        why = "the passphrase does not open it, or it is" if encrypted else "it is"
        raise ConfigError(
            f"key={str(path)!r}: {why} not a private key in PEM form (PKCS#8)"
        ) from None
