"""Agreeing on keys at the start of a session, over channels that are authenticated and encrypted.

Two parties combine ephemeral X25519 keys; to the key of a larger group all its holders contribute.
A key of this party alone never leaves it. Everything is fresh every time.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from ..errors import CheatingDetected, ConfigError, Party
from .contributions import SHOWN_BYTES, GroupSecret
from .key_memory import wipe
from .keys import KEY_BYTES, Group, Key, KeyRing, group_of
from .rounds import Exchange, check_size, others

ALL_GROUPS_UP_TO = 8  # parties; there are 2^n groups


def default_groups(parties: int) -> list[Group]:
    """Returns all groups of up to 8 parties; of more parties, the singles, the pairs and all."""
    sizes = range(1, parties + 1) if parties <= ALL_GROUPS_UP_TO else (1, 2, parties)
    return [group for size in sizes for group in combinations(range(parties), size)]


def agree_keys(
    exchange: Exchange,
    *,
    rank: int,
    parties: int,
    session: bytes,
    groups: Collection[Collection[int]] | None = None,
) -> KeyRing:
    """Returns the keys of every group that contains this party. Two rounds; one for pairs alone.

    `groups` must be the same at every party; pairs are always included.
    """
    named = _checked(default_groups(parties) if groups is None else groups, rank, parties)
    mine = [group for group in named if rank in group and len(group) != 2]
    drawn = [GroupSecret(group, rank=rank, session=session) for group in mine]
    private = X25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()

    peers = others(rank, parties)
    common = {peer: [secret for secret in drawn if peer in secret.group] for peer in peers}
    offers = {p: public + b"".join(secret.commitment for secret in common[p]) for p in peers}
    keys: dict[Group, Key] = {}
    for peer, offer in exchange(offers, peers).items():
        check_size(offer, KEY_BYTES * (1 + len(common[peer])), party=peer, what="its session keys")
        theirs, *commitments = _split(offer, KEY_BYTES)
        pair = group_of((rank, peer))
        keys[pair] = _pair_key(private, theirs, peer=peer, session=session, group=pair)
        for secret, commitment in zip(common[peer], commitments, strict=True):
            secret.hear(peer, commitment)
    if any(len(group) > 2 for group in named):  # all parties, so that they stay in step
        _show_contributions(exchange, common)
    return KeyRing(rank, keys | {secret.group: secret.key() for secret in drawn})


def _show_contributions(exchange: Exchange, common: dict[int, list[GroupSecret]]) -> None:
    """Each two members of a group show each other what they contribute to its key. One round."""
    peers = [peer for peer, drawn in common.items() if drawn]
    shown = {peer: b"".join(secret.shown() for secret in common[peer]) for peer in peers}
    for peer, received in exchange(shown, peers).items():
        check_size(received, len(shown[peer]), party=peer, what="its contributions to keys")
        for secret, one in zip(common[peer], _split(received, SHOWN_BYTES), strict=True):
            secret.accept(peer, one)


def _checked(groups: Collection[Collection[int]], rank: int, parties: int) -> list[Group]:
    """Returns the groups in the order in which all parties speak of them."""
    named = {group_of(group) for group in groups}
    for group in named:
        if not set(group) <= set(range(parties)):
            raise ConfigError(
                f"group {group}", limit=f"the parties are 0 to {parties - 1}", party=rank
            )
    return sorted(named)


def _split(message: bytes, size: int) -> list[bytes]:
    return [message[start : start + size] for start in range(0, len(message), size)]


def _pair_key(
    private: X25519PrivateKey, theirs: bytes, *, peer: int, session: bytes, group: Group
) -> Key:
    """X25519 through HKDF; the salt binds the key to both public keys, lower rank first."""
    try:
        material = private.exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError as error:  # the all-zero result: the peer sent a point of small order
        raise CheatingDetected(
            Party(peer)
            + (
                " sent an X25519 key that gives the same result with every partner; "
                "no key was agreed with it"
            ),
            party=peer,
        ) from error
    own = private.public_key().public_bytes_raw()
    salt = own + theirs if peer == group[1] else theirs + own
    key = Key.extract(material, salt=salt, session=session, group=group)
    wipe(material)
    return key
