"""AND gates on planes of secret bits: each party sends one bit a gate."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from ...errors import ConfigError
from ..bit_trees import and_tree
from ..share import Bool, Parts
from ..steps import Steps
from .arithmetic import replicate, zero_terms
from .base import ReplicatedBase

MOST_INPUTS = 9


def and_share(p: ReplicatedBase, x: Parts, y: Parts) -> Tensor:
    """Returns this party's z_i, where z_0 ^ z_1 ^ z_2 = x & y: `product_share` over Z_2. Local."""
    i, j = p.held
    z = (x[i] & (y[i] ^ y[j])) ^ (x[j] & y[i])
    for part in p.held:
        z = p.context.randomness.mask(zero_terms(part), z, "xor")
    return z


def and_parts(p: ReplicatedBase, x: Parts, y: Parts) -> Steps[Parts]:
    """Returns x & y. 1 round, 1 bit a party."""
    made = yield from replicate(p, and_share(p, x, y))
    p.note_gates(x, y, made)
    return made


def bit_and(p: ReplicatedBase, *bits: Bool) -> Steps[Bool]:
    """Returns the AND of d = 2 to 9 secrets. ceil(log2 d) rounds, d - 1 bits a party."""
    if not 2 <= len(bits) <= MOST_INPUTS:
        raise ConfigError(
            f"bit_and of {len(bits)} secrets", limit=f"2 to {MOST_INPUTS} are allowed"
        )
    gate = partial(and_parts, p)
    return bits[0].with_parts((yield from and_tree(gate, [b.parts for b in bits])))
