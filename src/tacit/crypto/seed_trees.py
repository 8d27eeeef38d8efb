"""Trees of seeds: one party knows all leaves of each tree, the other all but one of its choice.

One tree of depth d takes d base transfers. Its planter holds both keys of each, its picker the ones
that it chose. The picker's point p, the leaf that stays unknown to it, decides its choices: for the
level of bit i of p it chose 1 - bit i, the side that the path to p does not take. (The trees are
those of Goldreich, Goldwasser and Micali; picking as in Roy, "SoftSpokenOT", CRYPTO 2022.)

The two keys of the first level are the seeds of its nodes. On every further level each node has two
children, hashes of its seed. The planter sends the XOR of all left and that of all right
children, each hidden by a key of that level. The picker opens one of them, and misses exactly one
term of it: the sibling of the next node on the path.

Semi-honest, like the base transfers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from ..errors import ProtocolError
from .base_ot import SEED_BYTES
from .key_memory import wipe
from .rounds import check_size

LABELS = (b"tacit seed tree, left", b"tacit seed tree, right")


def choices_of(points: Sequence[int], depth: int) -> list[int]:
    """Returns the choices of the base transfers of trees, the first level of each tree first."""
    if not all(0 <= point < 1 << depth for point in points):
        raise ProtocolError(f"a leaf of a tree of depth {depth} is one of 2^{depth}")
    return [1 - (point >> bit & 1) for point in points for bit in reversed(range(depth))]


def message_bytes(trees: int, depth: int) -> int:
    """Returns the size of the planter's message."""
    return trees * (depth - 1) * 2 * SEED_BYTES


def plant(pairs: Sequence[tuple[bytes, bytes]], depth: int) -> tuple[list[list[bytes]], bytes]:
    """Returns the 2^depth leaves of each tree, and the message that goes to the picker."""
    trees, message = [], b""
    for first in range(0, len(pairs), depth):
        leaves = list(pairs[first])
        for level, pads in enumerate(pairs[first + 1 : first + depth]):
            nodes, leaves = leaves, [_child(seed, side) for seed in leaves for side in (0, 1)]
            wipe(*(nodes if level else ()))  # the first ones are the caller's
            message += b"".join(_xor([pads[side], *leaves[side::2]]) for side in (0, 1))
        trees.append(leaves)
    return trees, message


def pick(
    keys: Sequence[bytes], points: Sequence[int], depth: int, message: bytes, *, planter: int
) -> list[list[bytes | None]]:
    """Returns the leaves of each tree; the one at the tree's point is None."""
    size = message_bytes(1, depth)
    check_size(message, len(points) * size, party=planter, what="sums of seeds")
    return [
        _picked(point, keys[i * depth : (i + 1) * depth], message[i * size : (i + 1) * size])
        for i, point in enumerate(points)
    ]


def _picked(point: int, chosen: Sequence[bytes], sums: bytes) -> list[bytes | None]:
    depth = len(chosen)
    path = point >> (depth - 1)  # the number of the unknown node in its level
    seeds: list[bytes | None] = [None, None]
    seeds[1 - path] = chosen[0]
    for level in range(1, depth):
        nodes, seeds = seeds, [seed and _child(seed, side) for seed in seeds for side in (0, 1)]
        wipe(*(node for node in nodes if node and level > 1))  # the first one is the caller's
        path = point >> (depth - 1 - level)
        side = (path ^ 1) & 1
        start = (2 * (level - 1) + side) * SEED_BYTES
        known = [seed for seed in seeds[side::2] if seed is not None]
        seeds[path ^ 1] = _xor([chosen[level], sums[start : start + SEED_BYTES], *known])
    return seeds


def _child(seed: bytes, side: int) -> bytes:
    labelled = LABELS[side] + seed
    digest = hashlib.sha256(labelled).digest()
    child = digest[:SEED_BYTES]
    wipe(labelled, digest)
    return child


def _xor(parts: Iterable[bytes]) -> bytes:
    total = 0
    for part in parts:
        total ^= int.from_bytes(part, "little")
    return total.to_bytes(SEED_BYTES, "little")
