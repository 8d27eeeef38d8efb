"""Encrypted, authenticated files: only the holder of a key can read them or change them unnoticed.

Checkpoints are such files, and stored runs; a `FileKind` keeps them apart.

Layout, all integers little-endian: the magic, the length of the header, the header (plain JSON),
then the body in chunks, each a length and AES-256-GCM of up to CHUNK bytes. The key of a file is
derived from the party's key and a random salt, so a nonce, the number of the chunk, is never used
twice under one key. Each chunk authenticates the header, its position and whether it is the last:
a changed byte, a missing chunk and a truncated file are all detected. The header commits to the
key (NOTE [commitment] in crypto/sealing.py), so no file opens under two keys.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ..crypto import KEY_BYTES, SCRYPT, commitments_equal, committed_key, stretched, wipe
from ..errors import CheckpointRejected, ConfigError, PreprocessingRejected

MAGIC = b"tacit checkpoint 2\n"
CHUNK = 1 << 22
MOST_HEADER = 1 << 16
TAG_BYTES = 16
WRONG_KEY = "the key is wrong, or it was changed since it was saved"
CHANGED = "it was changed since it was saved"
UNREADABLE = "it was changed: its header cannot be read"
FOREIGN = "it is not a file of this kind and version"

Key = bytes | str


class FileKind(NamedTuple):
    """What a file is: how it begins, what its key is bound to, and the class of its errors."""

    magic: bytes
    purpose: bytes
    error: type[CheckpointRejected] | type[PreprocessingRejected]


CHECKPOINT = FileKind(MAGIC, b"tacit checkpoint file", CheckpointRejected)
STORED_RUN = FileKind(b"tacit stored run 1\n", b"tacit stored run file", PreprocessingRejected)


def write_file(
    path: Path,
    header: dict[str, Any],
    body: Iterable[bytes],
    key: Key,
    kind: FileKind = CHECKPOINT,
) -> None:
    """Writes an encrypted file and flushes it to the disk; deletes it if that fails."""
    salt = secrets.token_bytes(KEY_BYTES)
    file_key, commitment = _file_key(key, salt, SCRYPT, kind)
    kdf: dict[str, Any] = {"salt": salt.hex(), "commitment": commitment.hex()}
    if isinstance(key, str):
        kdf["scrypt"] = SCRYPT
    text = json.dumps(header | {"kdf": kdf}).encode()
    cipher, binding = AESGCM(file_key), hashlib.sha256(kind.magic + text).digest()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(kind.magic + struct.pack("<I", len(text)) + text)
            for number, chunk, last in _chunked(body):
                sealed = cipher.encrypt(_nonce(number), chunk, binding + bytes([last]))
                file.write(struct.pack("<I", len(sealed)) + sealed)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        wipe(file_key)  # the cipher has no copy


def key_in_file(path: Path, *, create: bool, kind: FileKind = CHECKPOINT) -> bytes:
    """Returns the key in a file of its owner; makes a new one if `create` is set and none is there.

    May raise OSError.
    """
    if not path.exists():
        if not create:
            raise kind.error(
                f"{path} is missing, which its files were saved with",
                told="the key of its files is missing",
            )
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        put_in_place(temporary, path)
    if path.stat().st_mode & 0o077:
        raise kind.error(
            f"{path} can be read by others",
            remedy="chmod 600 it",
            told="others can read the key of its files",
        )
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise kind.error(
            f"{path} is not a key of {KEY_BYTES} bytes", told="the key of its files is not a key"
        )
    return key


def put_in_place(temporary: Path, path: Path) -> None:
    """Renames a complete file to its final name, and flushes the folders to the disk."""
    os.replace(temporary, path)
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_header(file: BinaryIO, kind: FileKind = CHECKPOINT) -> tuple[dict[str, Any], bytes]:
    """Returns the header, not yet authenticated, and the digest that chunks authenticate."""
    if file.read(len(kind.magic)) != kind.magic:
        raise kind.error(FOREIGN, told=FOREIGN)
    [size] = struct.unpack("<I", _exactly(file, 4, kind))
    if size > MOST_HEADER:
        raise kind.error("it was changed: its header cannot be so long", told=CHANGED)
    text = _exactly(file, size, kind)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise kind.error(UNREADABLE, told=CHANGED) from error
    if not isinstance(header, dict):
        raise kind.error(UNREADABLE, told=CHANGED)
    return header, hashlib.sha256(kind.magic + text).digest()


def read_body(
    file: BinaryIO, header: dict[str, Any], binding: bytes, key: Key, kind: FileKind = CHECKPOINT
) -> bytearray:
    """Returns the whole body, authenticated together with the header."""
    body = bytearray()
    for chunk in read_chunks(file, header, binding, key, kind):
        body += chunk
    return body


def read_chunks(
    file: BinaryIO, header: dict[str, Any], binding: bytes, key: Key, kind: FileKind = CHECKPOINT
) -> Iterator[bytes]:
    """Yields the body piece by piece, each authenticated together with the header and its place."""
    file_key = _opening_key(header, key, kind)
    try:
        yield from _decrypted(file, AESGCM(file_key), binding, kind)
    finally:
        wipe(file_key)  # the cipher has no copy


def _decrypted(file: BinaryIO, cipher: AESGCM, binding: bytes, kind: FileKind) -> Iterator[bytes]:
    for number in range(1 << 32):
        [size] = struct.unpack("<I", _exactly(file, 4, kind))
        if size > CHUNK + TAG_BYTES:
            raise kind.error("it was changed: a part of it cannot be so long", told=CHANGED)
        sealed = _exactly(file, size, kind)
        chunk, last = _decrypt(cipher, number, sealed, binding, kind)
        if last and file.read(1):
            raise kind.error("it was changed: something follows its end", told=CHANGED)
        yield chunk
        if last:
            return


def _opening_key(header: dict[str, Any], key: Key, kind: FileKind) -> bytes:
    """Returns the key that opens a file, if it comes from this one."""
    try:
        kdf = header["kdf"]
        salt, cost = bytes.fromhex(kdf["salt"]), kdf.get("scrypt")
        commitment = bytes.fromhex(kdf["commitment"])
        if (cost is not None) != isinstance(key, str):
            made = "a passphrase" if cost is not None else "a key of 32 bytes"
            raise kind.error(
                f"it was saved with {made}",
                remedy="give that",
                told="it was saved with a key of another kind",
            )
        file_key, expected = _file_key(key, salt, cost or SCRYPT, kind)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise kind.error(UNREADABLE, told=CHANGED) from error
    if not commitments_equal(commitment, expected):
        raise kind.error(WRONG_KEY, told=WRONG_KEY)
    return file_key


def _decrypt(
    cipher: AESGCM, number: int, sealed: bytes, binding: bytes, kind: FileKind
) -> tuple[bytes, bool]:
    for last in (False, True):
        try:
            return cipher.decrypt(_nonce(number), sealed, binding + bytes([last])), last
        except InvalidTag:
            continue
    raise kind.error(WRONG_KEY, told=WRONG_KEY)


def _exactly(file: BinaryIO, size: int, kind: FileKind) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise kind.error("it was cut short", told="it was cut short")
    return data


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "little")


def _file_key(
    key: Key, salt: bytes, cost: dict[str, int], kind: FileKind = CHECKPOINT
) -> tuple[bytes, bytes]:
    """Returns the key of a file and the commitment to it."""
    if isinstance(key, str):
        secret = stretched(key, salt, cost, subject="key")
        made = committed_key(secret, salt, kind.purpose)
        wipe(secret)
        return made
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise ConfigError(f"{KEY_BYTES} bytes, or a passphrase as str, are needed", subject="key")
    return committed_key(key, salt, kind.purpose)


def _chunked(body: Iterable[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Yields (number, chunk, whether it is the last); the last one may be empty."""
    waiting, number = bytearray(), 0
    for piece in body:
        view = memoryview(piece)
        for start in range(0, len(view), CHUNK):
            waiting += view[start : start + CHUNK]
            while len(waiting) > CHUNK:
                yield number, bytes(waiting[:CHUNK]), False
                del waiting[:CHUNK]
                number += 1
    yield number, bytes(waiting), True
