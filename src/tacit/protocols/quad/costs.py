"""The costs of `quad`, from its definition (Q1 to Q4); the tests count the same bits.

What the mask side deals goes from party 3 to party 2, ahead; what the value side deals from party 2
to party 0. A result is opened between parties 1 and 2, and completed by party 3 for party 0, ahead.
"""

from __future__ import annotations

from ...ring import num_words
from ..cost import Cost, planes
from ..masked.carry_plan import sign_plan
from ..masked.costs import fours, level_products

VERIFY_BITS = 256  # a number, from each party to each other


class QuadCosts:
    """The cost of each operation on `n` elements."""

    counts_operands = False
    guard_bits = 0

    def __init__(self, ring_bits: int) -> None:
        self.ring_bits = ring_bits

    # Input and output --------------------------------------------------------------------------

    def share(self, n: int, owner: int) -> Cost:
        """One element from the owner to each of two parties."""
        return self._input(n * self.ring_bits, owner)

    def share_bits(self, n: int, owner: int, width: int = 1) -> Cost:
        return self._input(planes(width, n), owner)

    def reveal(self, n: int, to: int | None = None) -> Cost:
        """All views are compared; then one element and a hash to each receiver."""
        return self._output(n * self.ring_bits, to)

    def reveal_bits(self, n: int, width: int = 1, to: int | None = None) -> Cost:
        return self._output(planes(width, n), to)

    def verify(self) -> Cost:
        """A number from each party to each other."""
        return Cost(1, {(i, j, False): VERIFY_BITS for i in range(4) for j in range(4) if i != j})

    # The core ----------------------------------------------------------------------------------

    def bilinear(self, n_out: int, shift: int = 0, exact: bool = True) -> Cost:
        """4 elements; 1 more for the mask, unless an exact division stays pending."""
        elements, pending = n_out * self.ring_bits, shift > 0 and exact
        made = self._gate(0, elements, elements)
        if pending:
            return made
        if shift:
            return made.then(self.truncate(n_out, shift, exact=False))
        return made.then(self._dealt(elements))

    def truncate(self, n: int, t: int, exact: bool = True) -> Cost:
        """Exact: k + t bits dealt by each side. Probabilistic: one element dealt by each side."""
        elements = n * self.ring_bits
        if exact:
            dealt = elements + planes(t, n)
            return self._gate(dealt, dealt, elements)
        return self._dealt(elements).then(Cost(1, {(2, 0, False): elements}))

    def bit_and(self, n: int, rows: int, fan_in: int) -> Cost:
        """Dealt: every product of two or more bits of a side."""
        dealt = (2**fan_in - 1 - fan_in) * planes(rows, n)
        return self._gate(dealt, dealt, planes(rows, n))

    def signs(self, n: int, width: int, thresholds: int = 1) -> Cost:
        """The mask side's tables serve all thresholds, the value side's one each."""
        plan = sign_plan(width, num_words(n), thresholds)
        tables = planes(plan.table_rows + 1, n)
        heights = [2 * len(nodes) - 1 for nodes in (plan.digits, *plan.levels)]
        cost = self._gate(tables, thresholds * tables, thresholds * planes(heights[0], n))
        for nodes, rows in zip(plan.levels, heights[1:], strict=True):
            dealt = thresholds * planes(level_products(nodes), n)
            cost = cost.then(self._gate(dealt, dealt, thresholds * planes(rows, n)))
        return cost

    def is_zero(self, n: int, width: int) -> Cost:
        """A table for each digit of four bits, then gates of four inputs."""
        groups = fours(width)
        tables = planes(sum(2**digit - 1 for digit in groups), n)
        cost = self._gate(tables, tables, planes(len(groups), n))
        while len(groups) > 1:
            groups = fours(len(groups))
            gates = [fan_in for fan_in in groups if fan_in > 1]
            dealt = planes(sum(2**fan_in - 1 - fan_in for fan_in in gates), n)
            cost = cost.then(self._gate(dealt, dealt, planes(len(gates), n)))
        return cost

    def inject(self, n: int, pending: int = 0) -> Cost:
        """Dealt by each side: a bit and its product with the side's term.

        With an exact division on the way, an element and 2 (t + 1) bits more.
        """
        elements = n * self.ring_bits
        dealt = 3 * elements + 2 * planes(pending + 1, n) if pending else 2 * elements
        return self._gate(dealt, dealt, elements)

    def inject_sums(self, n: int, bits: int, uses_x: bool, sums: int) -> Cost:
        """Dealt by each side: an element a bit, two if it multiplies x."""
        dealt = n * bits * self.ring_bits * (2 if uses_x else 1)
        return self._gate(dealt, dealt, n * sums * self.ring_bits)

    # Links -------------------------------------------------------------------------------------

    def _input(self, bits: int, owner: int) -> Cost:
        receivers = [j for j in ((1, 2) if owner == 3 else (0, 1, 2)) if j != owner]
        return Cost(1, {(owner, j, False): bits for j in receivers})

    def _output(self, bits: int, to: int | None) -> Cost:
        parts, hashes = {0: 1, 1: 0, 2: 0, 3: 1}, {0: 2, 1: 3, 2: 3, 3: 2}
        receivers = range(4) if to is None else (to,)
        sent = {(parts[j], j, False): bits for j in receivers}
        return self.verify().then(Cost(1, sent | {(hashes[j], j, False): 256 for j in receivers}))

    def _dealt(self, bits: int) -> Cost:
        return Cost(0, {(3, 2, True): bits})

    def _gate(self, masks: int, values: int, opened: int) -> Cost:
        """Bits dealt by the mask side and by the value side, and bits of the result."""
        links = {
            (3, 2, True): masks,
            (3, 0, True): opened,
            (2, 0, False): values,
            (1, 2, False): opened,
            (2, 1, False): opened,
        }
        return Cost(1, {link: bits for link, bits in links.items() if bits})
