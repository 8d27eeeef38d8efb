"""AND gates on planes of secret bits, by triples that are made for a whole call at once."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ConfigError
from ..bit_trees import and_tree, and_tree_rows
from ..share import Bool, Parts
from ..steps import Steps
from .base import BeaverBase, open_hidden
from .source import Triple

MOST_INPUTS = 9


class Gates:
    """The AND gates of one call: x & y = c ^ (e & b) ^ (a & d) ^ (e & d), e = x ^ a, d = y ^ b.

    Each round takes the next triple. 1 round, 2 bits each way a gate.
    """

    def __init__(self, p: BeaverBase, triples: Sequence[Triple]) -> None:
        self._p, self._triples = p, iter(triples)

    def __call__(self, x: Parts, y: Parts) -> Steps[Parts]:
        """Returns x & y, for planes of equal shape."""
        p = self._p
        a, b, c = next(self._triples)
        _, (e, d) = yield from open_hidden(p, [], [x[p.rank] ^ a, y[p.rank] ^ b])
        if p.is_dealer:
            return {p.rank: c}
        return {p.rank: c ^ (e & (b ^ d if p.is_leader else b)) ^ (a & d)}


def and_gates(p: BeaverBase, rows: Sequence[int], words: int) -> Steps[Gates]:
    """Returns gates for as many rows of planes in each round; their triples are made here."""
    return Gates(p, (yield from p.source.and_triples(rows, words)))


def bit_and(p: BeaverBase, *bits: Bool) -> Steps[Bool]:
    """Returns the AND of d = 2 to 9 secrets. ceil(log2 d) rounds, d - 1 gates."""
    if not 2 <= len(bits) <= MOST_INPUTS:
        raise ConfigError(
            f"bit_and of {len(bits)} secrets", limit=f"2 to {MOST_INPUTS} are allowed"
        )
    rows, words = p.own(bits[0]).shape
    gates = yield from and_gates(p, and_tree_rows(len(bits), rows), words)
    return bits[0].with_parts((yield from and_tree(gates, [b.parts for b in bits])))
