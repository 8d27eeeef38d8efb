"""What a party sends where keys are agreed and coins are tossed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from random import Random

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tacit.crypto import agree_keys, toss_coin
from tacit.crypto.contributions import GroupSecret
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
SESSION, GROUP = b"fuzz", (0, 1, 2)


class KeyCircle:
    """Party 0 agrees on keys with party 2, which is honest, and party 1, which says what is told.

    `said` is what party 1 says in each round; nothing any more is what an honest one would say.
    """

    def __init__(self, *said: bytes) -> None:
        self._said = list(said)
        self._secrets = {p: GroupSecret(GROUP, rank=p, session=SESSION) for p in (1, 2)}
        self._round = 0

    def exchange(self, send: Mapping[int, bytes], _: Collection[int]) -> dict[int, bytes]:
        self._round += 1
        secrets = self._secrets.items()
        if self._round == 1:
            found = {peer: PUBLIC + secret.commitment for peer, secret in secrets}
        else:
            found = {peer: secret.shown() for peer, secret in secrets}
        if self._said:
            found[1] = self._said.pop(0)
        if self._round == 1:
            for peer, secret in secrets:
                secret.hear(0, send[peer][KEY_BYTES:])
                secret.hear(3 - peer, found[3 - peer][KEY_BYTES:])
        return found

    @property
    def offer(self) -> bytes:
        """What an honest party 1 says in the first round."""
        return PUBLIC + self._secrets[1].commitment


def keys(*said: bytes) -> None:
    with naming_parties(NAMES):
        exchange = KeyCircle(*said).exchange
        agree_keys(exchange, rank=0, parties=3, session=SESSION, groups=[GROUP])


def contributed(data: bytes) -> None:
    """Party 1 commits as it should, and shows something else."""
    circle = KeyCircle()
    circle._said = [circle.offer, data]
    with naming_parties(NAMES):
        agree_keys(circle.exchange, rank=0, parties=3, session=SESSION, groups=[GROUP])


def coin(*said: bytes) -> None:
    with naming_parties(NAMES):
        toss_coin(Circle(*said).exchange_bytes, rank=0, parties=3, session=SESSION, label="fuzz")


def cases(random: Random, count: int, _: Path) -> Iterator[Case]:
    def case(what: str, act: Callable[..., None], *said: bytes) -> Case:
        return Case(what, lambda: act(*said), hostile=True, names=NAME)

    yield Case("valid", lambda: keys())
    for size in SIZES:
        data = random.randbytes(size)
        yield case(f"{size} bytes of keys", keys, data)
        yield case(f"{size} bytes of a contribution", contributed, data)
        yield case(f"{size} bytes to commit", coin, data)
        yield case(f"{size} bytes to open", coin, random.randbytes(32), data)
    for point in SMALL_ORDER:
        yield case(f"the point {point.hex()[:8]}", keys, point + bytes(KEY_BYTES))
    opening = random.randbytes(96)
    for what, data in mutations(opening, seed=random.randrange(1 << 30), count=count // 2):
        yield case(f"{what} of an opening", coin, random.randbytes(32), data)
        yield case(f"{what} of a contribution", contributed, data)
