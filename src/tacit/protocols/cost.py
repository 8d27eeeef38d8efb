"""What an operation is declared to cost: rounds, and bits from party to party.

The declarations are written from the protocols' definitions, not from their code; the tests compare
them with what the transport counted, exactly. Bits travel in words of 64, one bit of an element
each: `planes` rounds up to whole words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# (sender, receiver, sent ahead)
Link = tuple[int, int, bool]


@dataclass(frozen=True)
class Cost:
    """rounds: messages on the critical path; bits: what is sent over each link, ahead or online."""

    rounds: int = 0
    bits: Mapping[Link, int] = field(default_factory=dict)

    def then(self, other: Cost) -> Cost:
        """Both, one after the other."""
        return Cost(self.rounds + other.rounds, _added(self.bits, other.bits))


def planes(rows: int, count: int) -> int:
    """Bits on the wire of `rows` bits for each of `count` elements."""
    return rows * -(-count // 64) * 64


def in_turn(costs: Iterable[Cost]) -> Cost:
    """All of them, one after the other."""
    total = Cost()
    for cost in costs:
        total = total.then(cost)
    return total


def _added(a: Mapping[Link, int], b: Mapping[Link, int]) -> dict[Link, int]:
    links = sorted(a.keys() | b.keys())
    return {link: bits for link in links if (bits := a.get(link, 0) + b.get(link, 0))}
