"""How many elements meet in each level of a tournament: the radices, from the declared costs.

A group of k elements is decided by all k (k - 1) / 2 comparisons at once. Large groups save rounds
and cost bits; where few elements are left, they cost little.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import ceil, isqrt
from typing import TYPE_CHECKING, Any

from ..cost import Cost, in_turn, side_by_side

if TYPE_CHECKING:
    from ..base import Protocol

RADICES = (2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64)
# The most inputs of an AND gate that decides a group on its own; more are joined in two levels.
FAN_IN = 7
# A round counts as much as so many bits in all, and as so many for each element.
ROUND_BITS = 1 << 20
ROUND_BITS_EACH = 256


def fan_ins(inputs: int) -> Iterator[int]:
    """Yields the fan-in of the gates of each level that join so many bits."""
    while inputs > 1:
        fan_in = inputs if inputs <= FAN_IN else isqrt(inputs - 1) + 1
        yield fan_in
        inputs = ceil(inputs / fan_in)


@cache
def planned_radices(
    protocol: type[Protocol],
    ring_bits: int,
    parties: int,
    *,
    size: int,
    count: int,
    width: int,
    columns: int,
) -> tuple[int, ...]:
    """Returns the radix of each level for `count` tournaments of `size` elements of `width` bits.

    columns: how many numbers move with each element, itself included. Pairs if no cost is declared.
    """
    costs = protocol.declared_costs(ring_bits, parties)
    if costs is None:
        return (2,) * (size - 1).bit_length()
    round_bits = max(ROUND_BITS, ROUND_BITS_EACH * size * count)

    @cache
    def best(left: int) -> tuple[int, tuple[int, ...]]:
        """The price of the levels for so many elements, and their radices."""
        if left == 1:
            return 0, ()
        found = []
        for radix in RADICES:
            if radix > left and radix != 2:
                break
            cost = _level(costs, radix, ceil(left / radix) * count, width, columns)
            price, later = best(ceil(left / radix))
            price += cost.rounds * round_bits + sum(cost.bits.values())
            found.append((price, (radix, *later)))
        return min(found)

    return best(size)[1]


def _level(costs: Any, radix: int, groups: int, width: int, columns: int) -> Cost:
    """The cost of deciding so many groups."""
    pairs, places, parts = radix * (radix - 1) // 2, radix - 1, []
    parts.append(costs.signs(pairs * groups, width))
    inputs = places if radix > 2 else 1
    for fan_in in fan_ins(inputs):
        inputs = ceil(inputs / fan_in)
        parts.append(costs.bit_and(places * groups, inputs, fan_in))
    parts.append(side_by_side([costs.inject(places * groups)] * columns))
    return in_turn(parts)
