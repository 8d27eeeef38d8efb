"""The costs of Beaver triples from oblivious transfers; the tests count the same bits.

Online it is the cost with a dealer, without what is dealt. Triples come before it, in rounds of the
same call. The setup, once in a session, is not part of any operation (`setup`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import isqrt

from ...ring import RING32, RING64, OtProduct
from ..bit_trees import carry_save_rows, top_bit_rows
from ..cost import Cost, in_turn, planes
from ..oblivious import and_triples_cost, cross_product_cost, product_cost, setup_cost
from .costs import BeaverCosts
from .wraps import sum_bits


class DealerFreeCosts(BeaverCosts):
    """The cost of each operation on `n` elements. As `MaskedCosts`."""

    def setup(self) -> Cost:
        """What the first operation that needs transfers costs more."""
        return self._side_by_side(setup_cost(i, j) for i, j in self._pairs)

    def bilinear(
        self,
        n_out: int,
        shift: int = 0,
        exact: bool = True,
        operands: Sequence[int] | None = None,
    ) -> Cost:
        """Elementwise; a square if one operand is given, a product of two matrices if two are."""
        sizes = (n_out, 1, 1, 1)
        if operands is not None and len(operands) == 2:
            left, right = operands
            k = isqrt(left * right // n_out)
            m, n = sorted((left // k, right // k))
            sizes = (1, m, k, n)
        product = self._product(*sizes, self.ring_bits)
        is_square = operands is not None and len(operands) == 1
        made = self._side_by_side(
            product_cost(product, i, j) if is_square else cross_product_cost(product, i, j)
            for i, j in self._pairs
        )
        made = made.then(self._gate(0, sum(operands or (n_out, n_out)) * self.ring_bits))
        return made if exact or not shift else made.then(self.truncate(n_out, shift, False))

    def truncate(self, n: int, t: int, exact: bool = True) -> Cost:
        """Two parties: a transfer of an element, or nothing if it need not be exact.

        More: two sums of few bits, whose upper bits become ring elements.
        """
        if self.parties == 2:
            return product_cost(self._product(n, 1, 1, 1, 1), 0, 1) if exact else Cost()
        c, width = sum_bits(self.parties)
        save = self._ands(n, carry_save_rows(self.parties, width), 2)
        trees = (self._ands(n, top_bit_rows(place + 1), 2) for place in range(c, width))
        counted = self.inject_sums(n, 2 * (width - c), False, 1)
        return in_turn([save, self._side_by_side(trees), counted])

    def inject_sums(self, n: int, bits: int, uses_x: bool, sums: int) -> Cost:
        """A chain of transfers a bit for each party's share of x, and one for the bit itself."""
        owners = range(self.parties) if uses_x else (0,)
        first = 2 if uses_x else 1  # columns of party 0
        chains = (self._chain(owner, n * bits, 1 if owner else first) for owner in owners)
        online = planes(bits, n) + (n * self.ring_bits if uses_x else 0)
        return self._side_by_side(chains).then(self._gate(0, online))

    def _chain(self, owner: int, count: int, columns: int) -> Cost:
        """Party after party receives a transfer from each of those before it."""
        product = self._product(count, 1, 1, columns, 1)
        order = [owner, *(rank for rank in range(self.parties) if rank != owner)]
        steps = [
            self._side_by_side(product_cost(product, chooser, i) for i in order[:place])
            for place, chooser in enumerate(order[1:], 1)
        ]
        return in_turn(steps)

    def _ands(self, n: int, rows: Sequence[int], times: int = 1) -> Cost:
        """Triples of all gates; among more than two parties, one bit more each way a gate."""
        gates = times * planes(sum(rows), n)
        made = self._side_by_side(and_triples_cost(gates // 64, i, j) for i, j in self._pairs)
        if self.parties > 2:
            made = made.then(self._gate(0, gates))
        return made.then(self._gate(0, 2 * gates, len(rows)))

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.parties), 2))

    @staticmethod
    def _side_by_side(costs: Iterable[Cost]) -> Cost:
        """The bits of all, in the rounds of the longest."""
        made = list(costs)
        return Cost(max(cost.rounds for cost in made), in_turn(made).bits)

    def _product(self, batch: int, m: int, k: int, n: int, bits: int) -> OtProduct:
        return OtProduct(batch, m, k, n, bits, RING32 if self.ring_bits == 32 else RING64)
