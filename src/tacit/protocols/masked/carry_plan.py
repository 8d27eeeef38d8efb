"""The plan of a carry over a window of w bits: sizes of leaf digits and of carry nodes (M8).

One round opens the leaves and each level of nodes takes one. Of all plans with few enough rounds,
the plan with the fewest bits is taken. Few elements are compared in fewer rounds, with more bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from ...errors import ConfigError
from ...kernels import num_products

DIGIT_BITS = range(1, 8)
RADICES = range(2, 10)
# A round counts as much as so many bits, dealt or opened: 128 KiB.
ROUND_BITS = 1 << 20


@dataclass(frozen=True)
class CarryPlan:
    """digits: bits of each leaf, least significant first; levels: the radices of their nodes.

    If the groups of a level do not fill its nodes, at most one is left out, the most significant:
    it goes to the next level as it is.
    """

    digits: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]

    @property
    def rounds(self) -> int:
        """Online rounds: one for the leaves, and one for each level."""
        return 1 + len(self.levels)

    @property
    def table_rows(self) -> int:
        """Bits of all leaf tables: 2^s - 1 for a digit of s bits (M6)."""
        return sum((1 << digit) - 1 for digit in self.digits)

    @property
    def dealt(self) -> int:
        """Bits dealt for an element: tables (M6), products (M7), and the mask's top bit (M8)."""
        return self.table_rows + sum(map(num_products, self.levels)) + 1

    @property
    def opened(self) -> int:
        """Bits that an evaluator opens for an element: G and P of each group but the lowest P."""
        rows = [2 * len(nodes) - 1 for nodes in (self.digits, *self.levels)]
        return sum(rows)


def groups_after(groups: int, nodes: tuple[int, ...]) -> int:
    """Returns how many groups a level leaves: its nodes, and the group that it leaves out."""
    return len(nodes) + (groups > sum(nodes))


@cache
def carry_plan(width: int, rounds: int | None = None) -> CarryPlan:
    """Returns the plan for the sign of `width` bits; by default 2 rounds up to 20 bits, 3 above."""
    most = rounds or (2 if width <= 20 else 3)
    plans = list(_plans(width - 1, depth=most - 1))
    if not plans:
        raise ConfigError(f"width={width}, rounds={rounds}", limit="no plan has so few rounds")
    return min(plans, key=lambda plan: (plan.dealt + 2 * plan.opened, plan.rounds))


@cache
def sign_plan(width: int, words: int, thresholds: int = 1) -> CarryPlan:
    """Returns the plan for the signs of `width` bits of 64 `words` elements less each threshold.

    That of `carry_plan`, or one with fewer rounds if its bits cost less than the rounds saved.
    """
    usual = carry_plan(width)

    def price(plan: CarryPlan) -> int:
        tables = plan.table_rows + 1  # they serve all thresholds
        each = plan.dealt - tables + 2 * plan.opened
        return 64 * words * (tables + thresholds * each) + ROUND_BITS * plan.rounds

    quicker = [carry_plan(width, rounds) for rounds in _fewer_rounds(width, usual.rounds)]
    return min([usual, *quicker], key=price)


def _fewer_rounds(width: int, usual: int) -> Iterator[int]:
    """Numbers of rounds below the usual one for which there is a plan."""
    return (rounds for rounds in range(1, usual) if any(_plans(width - 1, depth=rounds - 1)))


def _plans(bits: int, depth: int) -> Iterator[CarryPlan]:
    for size in DIGIT_BITS:
        digits = (size,) * (bits // size) + ((bits % size,) if bits % size else ())
        for count in range(depth + 1):
            for radices in product(RADICES, repeat=count):
                levels = _levels(len(digits), radices)
                if levels is not None:
                    yield CarryPlan(digits, levels)


def _levels(groups: int, radices: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    levels = []
    for radix in radices:
        if groups == 1:
            return None
        whole, rest = divmod(groups, radix)
        levels.append((radix,) * whole + ((rest,) if rest > 1 else ()))
        groups = groups_after(groups, levels[-1])
    return tuple(levels) if groups == 1 else None
