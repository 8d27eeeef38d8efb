"""Files in the place of a private key."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from tests.runtime.party_files import credentials

from tacit.crypto import SCRYPT, create_credentials, read_key_file
from tacit.crypto.key_file import seal

from ..attempts import Case, plant
from ..der import ED25519, integer, item, octets, pem, sequence
from ..mutate import mutations

PASSPHRASE = "correct horse of Zanzibar"
PBES2 = bytes.fromhex("06092a864886f70d01050d")
PBKDF2 = bytes.fromhex("06092a864886f70d01050c")
SCRYPT_ID = bytes.fromhex("06092b06010401da47040b")
AES = bytes.fromhex("060960864801650304012a")
SHA256 = bytes.fromhex("300c06082a864886f70d02090500")
COUNTS = (0, -1, 1 << 24, 1 << 31, 1 << 40, 1 << 70, 1 << 2000)


def _encrypted(way: bytes, secret: bytes) -> bytes:
    scheme = sequence(AES, octets(bytes(16)))
    return pem("ENCRYPTED PRIVATE KEY", sequence(sequence(PBES2, sequence(way, scheme)), secret))


def _pkcs8(*contents: bytes) -> bytes:
    return pem("PRIVATE KEY", sequence(*contents))


def _others() -> Iterator[Any]:
    yield ec.generate_private_key(ec.SECP256R1())
    yield rsa.generate_private_key(65537, 1024)
    yield x25519.X25519PrivateKey.generate()
    yield ed448.Ed448PrivateKey.generate()
    yield dsa.generate_private_key(1024)


def _crafted(random: Random) -> Iterator[tuple[str, bytes]]:
    for count in COUNTS:
        way = sequence(PBKDF2, sequence(octets(bytes(16)), integer(count), SHA256))
        yield f"{str(count)[:20]} iterations", _encrypted(way, octets(bytes(64)))
        for numbers in ((count, 8, 1), (1 << 14, count, 1), (1 << 14, 8, count)):
            way = sequence(SCRYPT_ID, sequence(octets(bytes(16)), *map(integer, numbers)))
            yield f"scrypt {str(numbers)[:30]}", _encrypted(way, octets(bytes(64)))
    for size in (0, 1, 31, 33, 10_000):
        yield f"a key of {size}", _pkcs8(integer(0), ED25519, octets(octets(bytes(size))))
    for version in (-1, 1, 1 << 64):
        yield f"version {version}", _pkcs8(integer(version), ED25519, octets(octets(bytes(32))))
    yield "nested 5000 times", pem("PRIVATE KEY", b"\x30\x80" * 5000)
    yield "a length beyond all", pem("PRIVATE KEY", b"\x30\x88" + b"\xff" * 8 + bytes(50))
    yield "an encryption that nobody knows", _encrypted(item(0x30, PBES2), octets(bytes(64)))
    for key in _others():
        how = PrivateFormat.PKCS8, NoEncryption()
        yield f"another kind: {type(key).__name__}", key.private_bytes(Encoding.PEM, *how)
    key = ec.generate_private_key(ec.SECP256R1())
    old = PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(PASSPHRASE.encode())
    yield "an older format", key.private_bytes(Encoding.PEM, *old)
    yield "another's key", credentials("bob").private_key
    yield "a certificate", credentials("alice").certificate
    yield "nothing", b""
    yield "too much", random.randbytes(1 << 15)
    yield "many keys", credentials("bob").private_key * 50


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    own = credentials("alice")
    key = load_pem_private_key(own.private_key, None)
    secret = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    plant("the private key", secret)
    plant("the text of the private key", own.private_key.split(b"\n")[1])
    plant("the passphrase", PASSPHRASE)
    how = PrivateFormat.PKCS8, BestAvailableEncryption(PASSPHRASE.encode())
    encrypted = key.private_bytes(Encoding.PEM, *how)
    sealed = _sealed_cheaply(key)
    path = folder / "alice.key"
    path.touch(mode=0o600)

    def read(data: bytes, passphrase: str | None = PASSPHRASE) -> None:
        path.write_bytes(data)
        read_key_file(path, own.certificate, passphrase)

    yield Case("valid", lambda: [read(own.private_key), read(sealed)])
    for what, data in _crafted(random):
        yield Case(what, lambda d=data: read(d), hostile=True, names="alice.key")
    yield Case("another encryption", lambda: read(encrypted), hostile=True, names="alice.key")
    for passphrase in (None, "", PASSPHRASE[::-1], PASSPHRASE + "\ud800", PASSPHRASE * 1000, "\0"):
        what = f"the passphrase {str(passphrase)[-5:]!r}"
        yield Case(what, lambda p=passphrase: read(sealed, p), hostile=True, names="passphrase")
    yield Case(
        "a new key for a passphrase that is no text",
        lambda: create_credentials("alice", passphrase=PASSPHRASE + "\ud800"),
        hostile=True,
        names="passphrase",
    )
    pipe = folder / "pipe"
    os.mkfifo(pipe, 0o600)
    for other in (pipe, folder, folder / "missing", folder / ("x" * 300)):
        act = lambda p=other: read_key_file(p, own.certificate)  # noqa: E731
        yield Case(f"the path {other.name[:20]}", act, hostile=True, names=other.name)
    for valid in (own.private_key, sealed):
        begin, *lines, end, _ = valid.split(b"\n")
        packed = base64.b64decode(b"".join(lines))
        for what, data in mutations(valid, seed=random.randrange(1 << 30), count=count // 4):
            yield Case(what, lambda d=data: read(d), names="alice.key")
        for what, data in mutations(packed, seed=random.randrange(1 << 30), count=count // 4):
            text = b"\n".join([begin, base64.b64encode(data), end, b""])
            yield Case(f"{what} of the content", lambda t=text: read(t), names="alice.key")


def _sealed_cheaply(key: Any) -> bytes:
    """The key, sealed at a cost that many attempts can afford."""
    cost = dict(SCRYPT)
    SCRYPT["n"] = 2
    try:
        return seal(key, PASSPHRASE)
    finally:
        SCRYPT.update(cost)
