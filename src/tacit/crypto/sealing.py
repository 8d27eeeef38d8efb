"""Keys of data at rest: from a passphrase or a key, with a commitment to what they came from.

NOTE [commitment] AES-GCM does not commit to its key: whoever knows two keys can make one ciphertext
that both of them open, each to something else. So the same derivation also gives 32 bytes that are
stored beside the ciphertext. To find a second key that gives the same ones is to find a collision
of SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.constant_time import bytes_eq
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from ..errors import ConfigError
from .key_memory import wipe

KEY_BYTES = 32
SCRYPT = {"n": 1 << 17, "r": 8, "p": 1}  # 128 MiB and some tenths of a second for each guess
_JOINT = b"tacit joint key"
MOST_SCRYPT = 1 << 21  # of n r p: twice the cost, at most 256 MiB


def stretched(passphrase: str, salt: bytes, cost: Mapping[str, int], *, subject: str) -> bytes:
    """Returns a key from a passphrase by scrypt; raises ValueError for a cost out of bounds.

    An error about the passphrase names the subject and does not show it.
    """
    n, r, p = (int(cost[name]) for name in "nrp")
    if min(n - 1, r, p) < 1 or n * r * p > MOST_SCRYPT:
        raise ValueError(f"scrypt with n r p of 1 to {MOST_SCRYPT}")
    try:
        secret = passphrase.encode()
    except UnicodeEncodeError:  # which holds the passphrase
        raise ConfigError(
            "the passphrase is not text that UTF-8 can hold", subject=subject
        ) from None
    if not secret:
        raise ConfigError("the passphrase is empty", subject=subject)
    key = Scrypt(salt=salt, length=KEY_BYTES, n=n, r=r, p=p).derive(secret)
    wipe(secret)
    return key


def committed_key(secret: bytes, salt: bytes, purpose: bytes) -> tuple[bytes, bytes]:
    """Returns a key for one use and the commitment to it; see NOTE [commitment]."""
    size = 2 * KEY_BYTES
    made = HKDF(hashes.SHA256(), length=size, salt=salt, info=purpose).derive(secret)
    key, commitment = made[:KEY_BYTES], made[KEY_BYTES:]
    wipe(made)
    return key, commitment


def part_of_joint_key(key: bytes | str) -> bytes:
    """Returns a secret that follows from a key or a passphrase, and does not tell it.

    A passphrase goes through scrypt with a fixed salt: a guess costs as much, for all at once.
    """
    secret = key if isinstance(key, bytes) else _stretched_part(key)
    return committed_key(secret, _JOINT, b"part of a joint key")[0]


def joint_key(parts: Sequence[bytes]) -> bytes:
    """Returns a key that takes all parts, in their order, to make."""
    return committed_key(b"".join(parts), _JOINT, b"joint key")[0]


def _stretched_part(passphrase: str) -> bytes:
    return stretched(passphrase, _JOINT, SCRYPT, subject="the key of a checkpoint")


def commitments_equal(one: bytes, other: bytes) -> bool:
    """Compares in a time that does not depend on where they differ."""
    return bytes_eq(one, other)
