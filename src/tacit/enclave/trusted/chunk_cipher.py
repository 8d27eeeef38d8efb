"""AES-256-GCM of chunks, each sealed for one tensor, one place in it and one version.

NOTE [nonces] The nonce of a chunk is the number of seals that the cipher has made, its *version*,
so no two seals of one cipher share a nonce, whatever threads make them. The key is new in every
cipher: HKDF takes 32 random bytes as its salt, so two runs with one root key and one measurement
have different keys. MAX_SEALS chunks of 1 MiB are 2^48 blocks, which an attacker tells from random
with at most 2^-31 (sigma^2 / 2^127).

NOTE [rollback] The enclave remembers the version of every chunk. What the host returns has to be
sealed under exactly that nonce, with tensor, chunk and version in the associated data: an older
version, another chunk, a shorter one and a changed byte all fail the one check of the tag.
"""

from __future__ import annotations

import secrets
import struct
from threading import Lock

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ...crypto import KEY_BYTES, wipe
from ...errors import SealedChunkRejected
from .secret_memory import secret_copy

TAG_BYTES = 16
SLACK_BYTES = 15  # that the cipher wants behind what it writes
MAX_SEALS = 1 << 32
_NONCE_BYTES = 12
_PLACE = struct.Struct("<QIQ")  # tensor, chunk, version


class ChunkCipher:
    """Seals and opens chunks under a key that exists in this object alone."""

    def __init__(self, measurement: bytes, root: bytes | None = None) -> None:
        salt = secrets.token_bytes(KEY_BYTES)
        kdf = HKDF(hashes.SHA256(), KEY_BYTES, salt, b"tacit sealed chunks v1" + measurement)
        key = kdf.derive(secrets.token_bytes(KEY_BYTES) if root is None else root)
        self._key = secret_copy(key)
        wipe(key)
        self._seals, self._lock = 0, Lock()

    def seal(self, plain: memoryview, into: memoryview, *, tensor: int, chunk: int) -> int:
        """Writes sealed bytes and their tag; returns the version that alone can be opened.

        `into` has TAG_BYTES more than `plain`.
        """
        version = self._next_version()
        encryptor = self._cipher(version).encryptor()
        encryptor.authenticate_additional_data(_PLACE.pack(tensor, chunk, version))
        encryptor.update_into(plain, into)
        encryptor.finalize()
        into[len(plain) :] = encryptor.tag
        return version

    def open(
        self, sealed: memoryview, into: memoryview, *, tensor: int, chunk: int, version: int
    ) -> None:
        """Writes the plaintext to `into`, which has SLACK_BYTES more; it is zeros after a failure.

        Raises SealedChunkRejected unless the bytes are what was sealed last for this place.
        """
        size = len(into) - SLACK_BYTES
        if len(sealed) != size + TAG_BYTES:
            raise SealedChunkRejected(
                f"the host returned {len(sealed)} of {size + TAG_BYTES} bytes", told=CUT
            )
        decryptor = self._cipher(version, bytes(sealed[size:])).decryptor()
        decryptor.authenticate_additional_data(_PLACE.pack(tensor, chunk, version))
        decryptor.update_into(sealed[:size], into)
        try:
            decryptor.finalize()
        except InvalidTag:
            into[:size] = bytes(size)
            raise SealedChunkRejected(
                "the host returned bytes that are changed, old, or of another place", told=CHANGED
            ) from None

    def close(self) -> None:
        """Overwrites the key: nothing that was sealed can be opened any more."""
        self._key[:] = bytes(len(self._key))
        self._seals = MAX_SEALS

    def _next_version(self) -> int:
        with self._lock:
            if self._seals >= MAX_SEALS:
                raise SealedChunkRejected(
                    f"{MAX_SEALS} chunks were sealed under one key, and no more are",
                    remedy="start a new session, or use larger chunks",
                )
            self._seals += 1
            return self._seals

    def _cipher(self, version: int, tag: bytes | None = None) -> Cipher[modes.GCM]:
        nonce = version.to_bytes(_NONCE_BYTES, "big")
        return Cipher(algorithms.AES(self._key), modes.GCM(nonce, tag))


CUT = "a sealed chunk was cut short"
CHANGED = "a sealed chunk was changed, old, or of another place"
