"""The file that holds a party's private key."""

from __future__ import annotations

import os
import re
import stat
from base64 import b64decode
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from ..errors import ConfigError

MOST_BYTES = 1 << 14
_PEM = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END")
_SCHEME = re.compile(  # the start of a PKCS#8 file: PBES2 with PBKDF2, a salt, below 2^22 rounds
    rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)"
    rb"\x30.\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d"
    rb"\x30.\x30.\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0c"
    rb"\x30.\x04(?:\x08.{8}|\x10.{16}|\x20.{32})\x02(?:\x01.|\x02..|\x03[\x00-\x3f]..)",
    re.DOTALL,
)


def read_key_file(path: Path, certificate: bytes, passphrase: str | None = None) -> bytes:
    """The private key of a PEM certificate, as PEM without encryption, from its owner's file.

    Nobody but the owner may read the file, which is checked before it is read.
    """
    key = _opened(_content(path), path, passphrase)
    owner = x509.load_pem_x509_certificate(certificate).public_key()
    if not isinstance(key, Ed25519PrivateKey) or key.public_key() != owner:
        raise ConfigError(
            "this private key and the certificate are not a pair",
            subject=f"key={str(path)!r}",
            remedy="use the file that was made together with it, or exchange the new "
            "certificate with all parties",
        )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _content(path: Path) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # no wait for a pipe
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
                raise ConfigError("this is no file of a private key", subject=f"key={str(path)!r}")
            if status.st_mode & 0o077:
                raise ConfigError(
                    "others may read this private key, its mode is "
                    f"{stat.S_IMODE(status.st_mode):04o}; allowed is 0600",
                    subject=f"key={str(path)!r}",
                    remedy=f"chmod 600 {path}",
                )
            return file.read()
    except OSError as error:
        raise ConfigError(f"key={str(path)!r} cannot be read: {error.strerror}") from error


def _opened(content: bytes, path: Path, passphrase: str | None) -> object:
    encrypted = b"ENCRYPTED" in content
    if encrypted and not passphrase:
        raise ConfigError("this private key needs its passphrase", subject=f"key={str(path)!r}")
    if encrypted:
        _check_scheme(content, path)
    secret = secret_bytes(passphrase) if passphrase and encrypted else None
    try:
        return load_pem_private_key(content, secret)
    except Exception:  # whatever the parser makes of it; its message might quote the file
        why = "the passphrase does not open it, or it is" if encrypted else "it is"
        raise ConfigError(
            f"{why} not a private key in PEM form (PKCS#8)", subject=f"key={str(path)!r}"
        ) from None


def _check_scheme(content: bytes, path: Path) -> None:
    """Refuses what would take a passphrase long, or much memory, to open."""
    found = _PEM.search(content)
    try:
        known = found is not None and _SCHEME.match(b64decode(found[1]))
    except ValueError:
        known = False
    if not known:
        raise ConfigError(
            "it is not a private key that was encrypted as `tacit party init` "
            "does it (PKCS#8, PBKDF2)",
            subject=f"key={str(path)!r}",
            remedy="openssl pkcs8 -topk8 converts other ones",
        )


def secret_bytes(passphrase: str) -> bytes:
    """A passphrase in UTF-8."""
    try:
        return passphrase.encode()
    except UnicodeEncodeError:  # which holds the passphrase
        raise ConfigError("it is not text that UTF-8 can hold", subject="passphrase") from None
