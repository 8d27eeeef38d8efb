"""What two parties do once, before their first oblivious transfer: two rounds."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from ...crypto import BaseReceiver, BaseSender, Transcript, lock, wipe
from ...crypto.base_ot import POINT_BYTES, SEED_BYTES
from ...crypto.seed_trees import choices_of, message_bytes, pick, plant
from ...transport import Spec
from ..steps import Received, Round, Steps
from .extension import DEPTH, SECURITY, TREES, TransferReceiver, Transfers, TransferSender

KEYS_BYTES = 2 * SECURITY * POINT_BYTES  # two public keys for each base transfer
SUMS_BYTES = message_bytes(TREES, DEPTH)


def set_up(rank: int, peer: int, session: bytes) -> Steps[Transfers]:
    """Returns transfers in both directions between two parties.

    Who will send extended transfers receives base transfers: its choices are where its trees of
    seeds lack a leaf. All four messages of a round are independent. session: what all keys are
    bound to, the same at both parties and never used before.
    """
    points = [secrets.randbelow(1 << DEPTH) for _ in range(TREES)]
    chooser = BaseReceiver(choices_of(points, DEPTH), session=session, sender=peer)
    offerer = BaseSender(SECURITY, session=session, receiver=peer)
    mine = chooser.message + offerer.message
    theirs = _received(peer, (yield _round(peer, mine, KEYS_BYTES + POINT_BYTES)))
    pairs = offerer.keys(theirs[:KEYS_BYTES])
    trees, sums = plant(pairs, DEPTH)
    keys = chooser.keys(theirs[KEYS_BYTES:])
    others = _received(peer, (yield _round(peer, sums, SUMS_BYTES)))
    known = pick(keys, points, DEPTH, others, planter=peer)
    hash_key = _hash_key(session, *((mine, theirs) if rank < peer else (theirs, mine)))
    leaves = [leaf for tree in trees for leaf in tree]
    receiver = TransferReceiver(_secret_tensor(b"".join(leaves)), hash_key, peer=peer)
    picked = [leaf for tree in zip(known, points, strict=True) for leaf in _from_point(*tree)]
    seeds = _secret_tensor(b"".join(picked))
    sender = TransferSender(seeds, _offset(points), hash_key, peer=peer)
    wipe(*keys, *(key for pair in pairs for key in pair), *leaves, *picked)
    return Transfers(sender, receiver, peer)


def _round(peer: int, message: bytes, size: int) -> Round:
    sent = torch.frombuffer(bytearray(message), dtype=torch.uint8)
    return Round({peer: [sent]}, {peer: [Spec((size,), torch.uint8)]})


def _received(peer: int, received: Received) -> bytes:
    [message] = received[peer]
    return message.cpu().numpy().tobytes()


def _from_point(leaves: Sequence[bytes | None], point: int) -> list[bytes]:
    """Returns leaf x ^ point at place x; place 0, of the leaf that is missing, holds zeros."""
    known = [leaves[x ^ point] for x in range(len(leaves))]
    return [leaf or bytes(SEED_BYTES) for leaf in known]


def _offset(points: Sequence[int]) -> Tensor:
    whole = sum(point << (DEPTH * tree) for tree, point in enumerate(points))
    return _secret_tensor(whole.to_bytes(SECURITY // 8, "little")).view(2)


def _secret_tensor(data: bytes) -> Tensor:
    """Returns seeds of 16 bytes as pairs of words: (trees, 2^depth, 2), or (1, 2); wipes `data`."""
    words = torch.frombuffer(lock(bytearray(data)), dtype=torch.int64)
    wipe(data)
    return words.view(-1, 1 << DEPTH, 2) if len(words) > 2 else words.view(1, 2)


def _hash_key(session: bytes, lower: bytes, higher: bytes) -> Tensor:
    """Returns the public key of the hash. It is new in each setup: nobody can prepare for it."""
    transcript = Transcript("hash of oblivious transfers").absorb("session", session)
    digest = transcript.absorb("lower rank", lower).absorb("higher rank", higher).digest()
    return torch.frombuffer(bytearray(digest[:16]), dtype=torch.int64)
