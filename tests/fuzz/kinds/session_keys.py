"""What a party sends where keys are agreed and coins are tossed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tacit.crypto import agree_keys, toss_coin
from tacit.crypto.keys import KEY_BYTES
from tacit.errors import naming_parties

from ..attempts import Case
from ..circle import NAMES, Circle
from ..mutate import mutations

SIZES = (0, 1, 31, 32, 33, 64, 95, 97, 128, 1 << 20)
SMALL_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    ((1 << 255) - 19).to_bytes(32, "little"),
    ((1 << 255) - 20).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
]


PUBLIC = X25519PrivateKey.from_private_bytes(b"x" * 32).public_key().public_bytes_raw()
NAME = "party 1 (bob"


def _honest(heard: bytes) -> bytes:
    """What party 2 says: nobody deals to party 0, so a public key is all; or the same digests."""
    return PUBLIC if len(heard) == 2 * KEY_BYTES else heard


def keys(*said: bytes, verify: bool = False) -> None:
    with naming_parties(NAMES):
        agree_keys(
            Circle(*said, honest=_honest).exchange_bytes,
            rank=0,
            parties=3,
            session=b"fuzz",
            groups=[(0, 1, 2)],
            verify=verify,
        )


def coin(*said: bytes) -> None:
    with naming_parties(NAMES):
        toss_coin(Circle(*said).exchange_bytes, rank=0, parties=3, session=b"fuzz", label="fuzz")


def cases(random: Random, count: int, _: Path) -> Iterator[Case]:
    def case(what: str, act: Callable[..., None], *said: bytes, hostile: bool = True) -> Case:
        return Case(what, lambda: act(*said), hostile=hostile, names=NAME)

    yield Case("valid", lambda: [keys(), keys(PUBLIC, verify=True)])
    verified = partial(keys, verify=True)
    for size in SIZES:
        data = random.randbytes(size)
        yield case(f"{size} bytes of keys", keys, data, hostile=size != KEY_BYTES)
        yield case(f"{size} bytes of digests", verified, PUBLIC, data)
        yield case(f"{size} bytes to commit", coin, data)
        yield case(f"{size} bytes to open", coin, random.randbytes(32), data)
    for point in SMALL_ORDER:
        yield case(f"the point {point.hex()[:8]}", keys, point)
    opening = random.randbytes(96)
    for what, data in mutations(opening, seed=random.randrange(1 << 30), count=count // 2):
        yield case(f"{what} of an opening", coin, random.randbytes(32), data)
