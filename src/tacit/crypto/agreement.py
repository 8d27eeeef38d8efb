"""Agreeing on keys at the start of a session, over channels that are authenticated and encrypted.

Two parties combine ephemeral X25519 keys; the key of a larger group is sampled by its lowest rank
and sent to the others. A key of this party alone never leaves it. Everything is fresh every time.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from hmac import compare_digest
from itertools import combinations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from ..errors import CheatingDetected, ConfigError, Party
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
    verify: bool = False,
) -> KeyRing:
    """Returns the keys of every group that contains this party. One round; one more to verify.

    `groups` must be the same at every party; pairs are always included. With `verify` the receivers
    of a sampled key check that all of them got the same one (for malicious security).
    """
    mine = _own_groups(default_groups(parties) if groups is None else groups, rank, parties)
    sampled = {group: secrets.token_bytes(KEY_BYTES) for group in mine if group[0] == rank}
    private = X25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()

    peers = others(rank, parties)
    offers = {peer: public + b"".join(sampled[g] for g in sampled if peer in g) for peer in peers}
    keys: dict[Group, Key] = {}
    for peer, offer in exchange(offers, peers).items():
        dealt = [group for group in mine if group[0] == peer]
        check_size(offer, KEY_BYTES * (1 + len(dealt)), party=peer, what="its session keys")
        theirs, *received = _split(offer)
        pair = group_of((rank, peer))
        keys[pair] = _pair_key(private, theirs, peer=peer, session=session, group=pair)
        sampled.update(zip(dealt, received, strict=True))

    for group, material in sampled.items():
        keys[group] = Key.extract(material, salt=b"", session=session, group=group)
    if verify:
        _compare_keys(exchange, {group: keys[group] for group in mine}, rank=rank, peers=peers)
    return KeyRing(rank, keys)


def _own_groups(groups: Collection[Collection[int]], rank: int, parties: int) -> list[Group]:
    """Returns the groups whose key is sampled, in the order in which their keys are sent."""
    named = {group_of(group) for group in groups}
    for group in named:
        if not set(group) <= set(range(parties)):
            raise ConfigError(
                f"group {group}", limit=f"the parties are 0 to {parties - 1}", party=rank
            )
    return sorted(group for group in named if rank in group and len(group) != 2)


def _split(offer: bytes) -> list[bytes]:
    return [offer[start : start + KEY_BYTES] for start in range(0, len(offer), KEY_BYTES)]


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
    return Key.extract(material, salt=salt, session=session, group=group)


def _compare_keys(
    exchange: Exchange, keys: dict[Group, Key], *, rank: int, peers: list[int]
) -> None:
    """Each two members of a group of three or more compare a digest of its key."""
    checks = {group: key.derive("key check", 32) for group, key in keys.items()}
    common = {peer: [group for group in checks if peer in group] for peer in peers}
    sent = {peer: b"".join(checks[group] for group in common[peer]) for peer in peers}
    for peer, received in exchange(sent, peers).items():
        check_size(received, len(sent[peer]), party=peer, what="its key digests")
        for group, check in zip(common[peer], _split(received), strict=True):
            if not compare_digest(check, checks[group]):
                raise CheatingDetected(
                    Party(rank)
                    + " and "
                    + Party(peer)
                    + f" hold different keys of the group {group}: "
                    + Party(group[0])
                    + ", who sampled it, or one of the two cheats",
                    remedy="start a new session",
                    party=peer if group[0] == rank else group[0],
                )
