"""AND gates on planes of secret bits: each party sends one bit a gate."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...errors import ConfigError
from ..share import Bool, Parts
from ..steps import Steps
from .arithmetic import replicate, zero_terms
from .base import ReplicatedBase

MOST_INPUTS = 9


def map_parts(change: Callable[..., Tensor], *secrets: Parts) -> Parts:
    """Applies a local function to each part that this party holds of several secrets."""
    return {i: change(*(parts[i] for parts in secrets)) for i in secrets[0]}


def and_parts(p: ReplicatedBase, x: Parts, y: Parts) -> Steps[Parts]:
    """Returns x & y: `product_share` and `replicate` over Z_2. 1 round, 1 bit a party."""
    i, j = p.held
    z = (x[i] & (y[i] ^ y[j])) ^ (x[j] & y[i])
    for part in p.held:
        z = p.context.randomness.mask(zero_terms(part), z, "xor")
    return (yield from replicate(p, z))


def and_tree(p: ReplicatedBase, groups: list[Parts]) -> Steps[Parts]:
    """Returns the AND of d secrets, as a tree. ceil(log2 d) rounds, d - 1 bits a party."""
    while len(groups) > 1:
        pairs = len(groups) // 2
        left, right = _stacked(groups[0 : 2 * pairs : 2]), _stacked(groups[1 : 2 * pairs : 2])
        out = yield from and_parts(p, left, right)
        chunks = {i: planes.chunk(pairs) for i, planes in out.items()}
        joined = [{i: chunks[i][n] for i in chunks} for n in range(pairs)]
        groups = [*joined, *groups[2 * pairs :]]
    return groups[0]


def _stacked(groups: list[Parts]) -> Parts:
    return map_parts(lambda *planes: torch.cat(planes), *groups)


def bit_and(p: ReplicatedBase, *bits: Bool) -> Steps[Bool]:
    """Returns the AND of d = 2 to 9 secrets. ceil(log2 d) rounds, d - 1 bits a party."""
    if not 2 <= len(bits) <= MOST_INPUTS:
        raise ConfigError(
            f"bit_and of {len(bits)} secrets", limit=f"2 to {MOST_INPUTS} are allowed"
        )
    return bits[0].with_parts((yield from and_tree(p, [b.parts for b in bits])))
