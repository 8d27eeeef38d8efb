"""The declared cost of an operation: rounds, and bits from party to party.

Declarations are written from the protocols' definitions, not from their code, and the tests compare
them exactly with what the transport counts. Bits travel in words of 64, one bit for each of 64
elements: `planes` rounds up to whole words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# (sender, receiver, sent ahead)
Link = tuple[int, int, bool]


@dataclass(frozen=True)
class Cost:
    """rounds: messages on the critical path. bits: what is sent on each link, ahead or online."""

    rounds: int = 0
    bits: Mapping[Link, int] = field(default_factory=dict)

    def then(self, other: Cost) -> Cost:
        """Returns the cost of both, one after the other."""
        return Cost(self.rounds + other.rounds, _added(self.bits, other.bits))


def planes(rows: int, count: int) -> int:
    """Returns the bits on the wire of `rows` bits for each of `count` elements."""
    return rows * -(-count // 64) * 64


def in_turn(costs: Iterable[Cost]) -> Cost:
    """Returns the cost of all, one after the other."""
    total = Cost()
    for cost in costs:
        total = total.then(cost)
    return total


def side_by_side(costs: Iterable[Cost]) -> Cost:
    """Returns the cost of all, which share their rounds."""
    every = list(costs)
    bits = in_turn(every).bits
    return Cost(max((cost.rounds for cost in every), default=0), bits)


def _added(a: Mapping[Link, int], b: Mapping[Link, int]) -> dict[Link, int]:
    links = sorted(a.keys() | b.keys())
    return {link: bits for link in links if (bits := a.get(link, 0) + b.get(link, 0))}
