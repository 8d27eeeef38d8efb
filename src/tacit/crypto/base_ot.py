"""Oblivious transfers of random keys from X25519: the few from which many others are made.

The sender gets two keys for each transfer, the receiver the one that it chose. The sender does not
learn which, and the receiver learns nothing of the other key. Each side sends one message, which
depends on no message of the other side, so both travel in one round.

NOTE [two public keys]: for a choice c the receiver sends two public keys. It knows the private key
of the one at place c. The other is a random point of the curve times a random scalar, so nobody
knows its private key. The sender has one public key R = r B; key b of a transfer is a hash of the
point r pk_b. X25519 multiplies by a multiple of 8, so every key lies in the subgroup of prime
order. The known key is a product k_2 (k_1 B). One clamped scalar takes only half of all values
modulo the order, so whoever computes discrete logarithms could tell k B from a random point; the
product of two is statistically close to uniform. So the choices are hidden without any assumption,
and the other key by that of Diffie and Hellman. Semi-honest: nothing stops a receiver from making
both keys so that it knows them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from ..errors import CheatingDetected, Party, ProtocolError
from .key_memory import wipe
from .rounds import check_size
from .transcript import Transcript

Private = TypeVar("Private")
POINT_BYTES = 32
SEED_BYTES = 16  # of a key that is transferred
PRIME = 2**255 - 19
CURVE = 486662  # v^2 = u^3 + CURVE u^2 + u


def is_on_curve(u: int) -> bool:
    """Whether some v has v^2 = u^3 + CURVE u^2 + u, v != 0: Euler's criterion."""
    square = (u * u * u + CURVE * u * u + u) % PRIME
    return pow(square, (PRIME - 1) // 2, PRIME) == 1


class BaseReceiver:
    """The side that chooses. `message` goes to the sender. The private keys serve once."""

    def __init__(self, choices: Sequence[int], *, session: bytes, sender: int) -> None:
        if not all(choice in (0, 1) for choice in choices):
            raise ProtocolError("a choice of an oblivious transfer is 0 or 1")
        self._session, self._sender = session, sender
        private = [(_new_key(), _new_key()) for _ in choices]
        self._private: list[tuple[X25519PrivateKey, X25519PrivateKey]] | None = private
        self._known = [second.exchange(first.public_key()) for first, second in private]
        pairs = [(known, _unknown_key()) for known in self._known]
        self.message = b"".join(
            pair[c] + pair[1 - c] for pair, c in zip(pairs, choices, strict=True)
        )

    def keys(self, message: bytes) -> list[bytes]:
        """Returns the chosen key of each transfer, from the sender's message."""
        check_size(message, POINT_BYTES, party=self._sender, what="its key of a base transfer")
        private, self._private = self._private, None  # OpenSSL wipes a key that nobody holds
        made = []
        for index, (first, second) in enumerate(_unused(private)):
            half = _multiplied(first, message, self._sender)
            point = _multiplied(second, half, self._sender)
            made.append(_hashed(self._session, index, message, self._known[index], point))
            wipe(half, point)
        return made


class BaseSender:
    """The side with both keys. `message` goes to the receiver. The private key serves once."""

    def __init__(self, count: int, *, session: bytes, receiver: int) -> None:
        self._session, self._receiver, self._count = session, receiver, count
        private = _new_key()
        self._private: X25519PrivateKey | None = private
        self.message = private.public_key().public_bytes_raw()

    def keys(self, message: bytes) -> list[tuple[bytes, bytes]]:
        """Returns both keys of each transfer, from the receiver's message."""
        size, what = 2 * POINT_BYTES * self._count, "its keys of base transfers"
        check_size(message, size, party=self._receiver, what=what)
        starts = range(0, size, POINT_BYTES)
        points = [message[start : start + POINT_BYTES] for start in starts]
        private, self._private = _unused(self._private), None
        made = [self._key(private, place // 2, public) for place, public in enumerate(points)]
        return list(zip(made[::2], made[1::2], strict=True))

    def _key(self, private: X25519PrivateKey, index: int, public: bytes) -> bytes:
        point = _multiplied(private, public, self._receiver)
        made = _hashed(self._session, index, self.message, public, point)
        wipe(point)
        return made


def _unused(private: Private | None) -> Private:
    if private is None:
        raise ProtocolError(
            "the keys of these base transfers were made before", remedy="make new transfers"
        )
    return private


def _new_key() -> X25519PrivateKey:
    return X25519PrivateKey.generate()


def _unknown_key() -> bytes:
    """Returns a uniform point of the prime-order subgroup whose private key nobody knows."""
    u = secrets.randbelow(PRIME)
    while not is_on_curve(u):
        u = secrets.randbelow(PRIME)
    point = X25519PublicKey.from_public_bytes(u.to_bytes(POINT_BYTES, "little"))
    return _new_key().exchange(point)


def _multiplied(private: X25519PrivateKey, public: bytes, party: int) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:  # the all-zero result: a point of small order
        raise CheatingDetected(
            Party(party) + " sent an X25519 key of small order for an oblivious transfer",
            party=party,
        ) from error


def _hashed(session: bytes, index: int, sender: bytes, public: bytes, point: bytes) -> bytes:
    """Returns the key of a point, bound to the session, the transfer and both public keys."""
    transcript = Transcript("base oblivious transfer").absorb("session", session)
    transcript.absorb("index", index.to_bytes(8, "little")).absorb("sender", sender)
    digest = transcript.absorb("public", public).absorb("point", point).digest()
    made = digest[:SEED_BYTES]
    wipe(digest)
    return made
