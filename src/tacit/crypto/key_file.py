"""The file that holds a party's private key: as PEM, or sealed with a passphrase.

A sealed key is text: two lines around base64 of a fixed layout. It holds the version, the cost of
scrypt (log2 n, r, p), a random salt, the commitment to the key (NOTE [commitment] in sealing.py),
and the 32 bytes of the Ed25519 key under AES-256-GCM, which authenticates all that stands before.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import struct
from base64 import b64decode, b64encode
from pathlib import Path
from typing import NoReturn

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from ..errors import ConfigError
from .key_memory import wipe
from .sealing import KEY_BYTES, SCRYPT, commitments_equal, committed_key, stretched

MOST_BYTES = 1 << 14
VERSION = 1
PURPOSE = b"tacit private key file"
TAG_BYTES = 16
_HEAD = struct.Struct(f"<BBBB{KEY_BYTES}s{KEY_BYTES}s")
_NONCE = bytes(12)  # a key derived from a new salt encrypts once
_BEGIN, _END = b"-----BEGIN TACIT SEALED KEY-----", b"-----END TACIT SEALED KEY-----"
_TEXT = re.compile(_BEGIN + rb"\n([A-Za-z0-9+/=\n]+)\n" + _END + rb"\n?")


def read_key_file(path: Path, certificate: bytes, passphrase: str | None = None) -> bytes:
    """The private key of a PEM certificate, as PEM without encryption, from its owner's file.

    Nobody but the owner may read the file, which is checked before it is read.
    """
    content = _content(path)
    key = _opened(content, path, passphrase)
    wipe(content)
    owner = x509.load_pem_x509_certificate(certificate).public_key()
    if not isinstance(key, Ed25519PrivateKey) or key.public_key() != owner:
        raise ConfigError(
            "this private key and the certificate are not a pair",
            subject=f"key={str(path)!r}",
            remedy="use the file that was made together with it, or exchange the new "
            "certificate with all parties",
        )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def is_sealed(content: bytes) -> bool:
    """Returns whether the content of a key file needs a passphrase."""
    return content.startswith(_BEGIN)


def seal(key: Ed25519PrivateKey, passphrase: str) -> bytes:
    """Returns a private key sealed with a passphrase, as the content of a file."""
    salt = secrets.token_bytes(KEY_BYTES)
    secret = stretched(passphrase, salt, SCRYPT, subject="passphrase")
    sealing_key, commitment = committed_key(secret, salt, PURPOSE)
    cost = SCRYPT["n"].bit_length() - 1, SCRYPT["r"], SCRYPT["p"]
    head = _HEAD.pack(VERSION, *cost, salt, commitment)
    plain = key.private_bytes_raw()
    sealed = AESGCM(sealing_key).encrypt(_NONCE, plain, head)
    wipe(secret, sealing_key, plain)
    text = b64encode(head + sealed)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join([_BEGIN, *lines, _END, b""])


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
    if is_sealed(content):
        return _unsealed(content, path, passphrase)
    try:
        return load_pem_private_key(content, None)
    except Exception:  # whatever the parser makes of it; its message might quote the file
        encrypted = b"ENCRYPTED" in content
        raise ConfigError(
            "it is not a private key of `tacit party init`",
            limit="a key in PEM form without encryption (PKCS#8), or one that Tacit has sealed",
            remedy="openssl pkey -in OLD -out NEW takes the encryption off" if encrypted else None,
            subject=f"key={str(path)!r}",
        ) from None


def _unsealed(content: bytes, path: Path, passphrase: str | None) -> Ed25519PrivateKey:
    subject = f"key={str(path)!r}"
    if not passphrase:
        raise ConfigError("this private key needs its passphrase", subject=subject)
    head, sealed = _parts(content, subject)
    version, log_n, r, p, salt, commitment = _HEAD.unpack(head)
    if version != VERSION:
        raise ConfigError(f"it was sealed by another version of Tacit ({version})", subject=subject)
    try:
        cost = {"n": 1 << log_n, "r": r, "p": p}
        secret = stretched(passphrase, salt, cost, subject="passphrase")
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        _damaged(subject)
    sealing_key, expected = committed_key(secret, salt, PURPOSE)
    wipe(secret)
    if not commitments_equal(commitment, expected):
        raise ConfigError(
            "the passphrase does not open it, or it is not a private key that Tacit has sealed",
            subject=subject,
        )
    try:
        plain = AESGCM(sealing_key).decrypt(_NONCE, sealed, head)
    except InvalidTag:
        _damaged(subject)
    key = Ed25519PrivateKey.from_private_bytes(plain)
    wipe(sealing_key, plain)
    return key


def _parts(content: bytes, subject: str) -> tuple[bytes, bytes]:
    """Returns what stands before the ciphertext, and the ciphertext."""
    found = _TEXT.fullmatch(content)
    try:
        data = b64decode(found[1], validate=False) if found else b""
    except ValueError:
        data = b""
    if len(data) != _HEAD.size + KEY_BYTES + TAG_BYTES:
        _damaged(subject)
    return data[: _HEAD.size], data[_HEAD.size :]


def _damaged(subject: str) -> NoReturn:
    raise ConfigError(
        "it was changed: it is not a private key as Tacit has sealed it", subject=subject
    ) from None
