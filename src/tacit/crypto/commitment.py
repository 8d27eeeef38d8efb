"""Committing to a value before others show theirs, and tossing a coin that nobody controls."""

from __future__ import annotations

import secrets
from hmac import compare_digest

from ..errors import CheatingDetected, Party
from .rounds import Exchange, check_size, others
from .transcript import Transcript

NONCE_BYTES = 32
DIGEST_BYTES = 32


def commit(value: bytes, *, session: bytes, party: int, label: str) -> tuple[bytes, bytes]:
    """A commitment to `value`, and the opening that proves it later.

    The commitment hides the value (a nonce of 256 random bits) and binds the party to it (SHA-256).
    It is tied to session, party and label, so that nobody can hand in somebody else's.
    """
    opening = secrets.token_bytes(NONCE_BYTES) + value
    return _digest(opening, session=session, party=party, label=label), opening


def open_commitment(
    commitment: bytes, opening: bytes, *, session: bytes, party: int, label: str
) -> bytes:
    """The value `party` was committed to; raises CheatingDetected if this is not the opening."""
    expected = _digest(opening, session=session, party=party, label=label)
    if len(opening) < NONCE_BYTES or not compare_digest(commitment, expected):
        raise CheatingDetected(
            Party(party)
            + (
                f" opened its commitment for {label!r} to another value than it had "
                "committed to; the result is not used"
            ),
            party=party,
        )
    return opening[NONCE_BYTES:]


def toss_coin(
    exchange: Exchange, *, rank: int, parties: int, session: bytes, label: str, size: int = 32
) -> bytes:
    """`size` random bytes, the same at every party and uniform if one party is honest. Two rounds.

    With the openings goes a digest of all commitments, so that a party that commits differently to
    different peers is found out. What no such protocol prevents: a party may see the others'
    openings first and then stop, or open wrongly to some; the toss then ends in an error, at
    some parties perhaps later than at others. Such a result must not be tossed again.
    """
    peers = others(rank, parties)
    value = secrets.token_bytes(size)
    commitment, opening = commit(value, session=session, party=rank, label=label)
    commitments = {rank: commitment, **exchange(dict.fromkeys(peers, commitment), peers)}
    view = view_of(commitments, session=session, label=label)

    coin = value
    for peer, message in sorted(exchange(dict.fromkeys(peers, view + opening), peers).items()):
        check_size(message, len(view) + len(opening), party=peer, what="a coin-toss opening")
        compare_views(view, message[:DIGEST_BYTES], party=peer, label=label)
        opened = open_commitment(
            commitments[peer], message[DIGEST_BYTES:], session=session, party=peer, label=label
        )
        coin = bytes(a ^ b for a, b in zip(coin, opened, strict=True))
    return coin


def _digest(opening: bytes, *, session: bytes, party: int, label: str) -> bytes:
    transcript = Transcript("commitment").absorb("session", session)
    transcript.absorb("party", str(party).encode()).absorb(label, opening)
    return transcript.digest()


def view_of(commitments: dict[int, bytes], *, session: bytes, label: str) -> bytes:
    """A digest of the commitments of all parties, by rank, as one of them received them."""
    transcript = Transcript("coin toss").absorb("session", session).absorb("label", label.encode())
    for party, commitment in sorted(commitments.items()):
        transcript.absorb(str(party), commitment)
    return transcript.digest()


def compare_views(ours: bytes, theirs: bytes, *, party: int, label: str) -> None:
    """Raises CheatingDetected if another party received other commitments."""
    if not compare_digest(ours, theirs):
        raise CheatingDetected(
            Party(party)
            + (
                f" saw other commitments for {label!r} than this party: it, or a "
                "party that sent different ones to different peers, cheats; the "
                "result is not used"
            ),
            party=party,
        )
