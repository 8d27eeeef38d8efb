"""The costs of replicated sharing, from its definition; the tests count the same bits.

In a gate party i sends its share of the product to party i-1. The adder a also sends inputs of its
own, to party a+1. Ring elements have `ring_bits` bits; single bits are counted in whole words of
64 elements (`cost.planes`).
"""

from __future__ import annotations

from ..bit_trees import and_tree_rows, top_bit_rows
from ..cost import Cost, Link, in_turn, planes
from ..masked.costs import MaskedCosts
from ..trio import trio_roles

PARTIES = (0, 1, 2)


class ReplicatedCosts:
    """The cost of each operation on `n` elements. As `MaskedCosts`."""

    counts_operands = False
    guard_bits = 0

    def __init__(self, ring_bits: int, adder: int = 0) -> None:
        self.ring_bits, self.adder = ring_bits, adder

    # Input and output --------------------------------------------------------------------------

    def share(self, n: int, owner: int) -> Cost:
        """One element, from the owner to the next party."""
        return _input(n * self.ring_bits, owner)

    def share_bits(self, n: int, owner: int, width: int = 1) -> Cost:
        return _input(planes(width, n), owner)

    def reveal(self, n: int, to: int | None = None) -> Cost:
        """One element to each receiver, from the next party. Nothing is pending."""
        return _output(n * self.ring_bits, to)

    def reveal_bits(self, n: int, width: int = 1, to: int | None = None) -> Cost:
        return _output(planes(width, n), to)

    def hide_rows(self, n: int, owner: int) -> Cost:
        """One element from the party after the owner to the third, ahead of time."""
        return Cost(0, {((owner + 1) % 3, (owner + 2) % 3, True): n * self.ring_bits})

    def take_hidden(self, count: int, n: int, owner: int) -> Cost:
        """A word for each of `count` rows from the owner to the third party; n elements opened."""
        third, elements = (owner + 2) % 3, n * self.ring_bits
        told = Cost(1, {(owner, third, False): count * 64})
        return told.then(
            Cost(1, {(owner, third, False): elements, (third, owner, False): elements})
        )

    # The core ----------------------------------------------------------------------------------

    def bilinear(self, n_out: int, shift: int = 0, exact: bool = True) -> Cost:
        """One element a party; an exact division stays pending.

        With the probabilistic one the adder sends after the others, and its quotient.
        """
        elements = n_out * self.ring_bits
        if exact or not shift:
            return gate_cost(elements)
        others = [i for i in PARTIES if i != self.adder]
        first = Cost(1, {(i, (i - 1) % 3, False): elements for i in others})
        return first.then(_input(elements, self.adder))

    def truncate(self, n: int, t: int, exact: bool = True) -> Cost:
        """Exact: that of `trio` with the adder as dealer. Probabilistic: one element from it."""
        a = self.adder
        if not exact:
            return _input(n * self.ring_bits, a)
        return MaskedCosts(self.ring_bits, trio_roles(a, (a + 1) % 3, (a + 2) % 3)).truncate(n, t)

    def bit_and(self, n: int, rows: int, fan_in: int) -> Cost:
        """fan_in - 1 gates of two inputs, in ceil(log2 fan_in) levels."""
        return gate_cost((fan_in - 1) * planes(rows, n), rounds=len(and_tree_rows(fan_in)))

    def signs(self, n: int, width: int, thresholds: int = 1) -> Cost:
        """w bits from the adder; for each threshold, the top bit of a sum of two."""
        rows = top_bit_rows(width)
        tree = gate_cost(thresholds * planes(sum(rows), n), rounds=len(rows))
        return _input(planes(width, n), self.adder).then(tree)

    def is_zero(self, n: int, width: int) -> Cost:
        """w bits from the adder, and the AND of w bits."""
        return self.share_bits(n, self.adder, width).then(self.bit_and(n, 1, width))

    def inject(self, n: int, pending: int = 0, exact: bool = True) -> Cost:
        """One bit and one element a party, and a daBit ahead; a pending division comes first."""
        before = self.truncate(n, pending, exact) if pending else Cost()
        return before.then(self.inject_sums(n, 1, True, 1))

    def inject_sums(self, n: int, bits: int, uses_x: bool, sums: int) -> Cost:
        """A bit: one bit a party, and one element if it multiplies x; sums cost nothing."""
        online = planes(bits, n) + (bits * n * self.ring_bits if uses_x else 0)
        return in_turn([self._dabits(n * bits), gate_cost(online)])

    def _dabits(self, n: int) -> Cost:
        """Random bits as ring elements, ahead: an input of the adder, and a product."""
        elements = n * self.ring_bits
        return _input(elements, self.adder, ahead=True).then(
            gate_cost(elements, rounds=0, ahead=True)
        )


def _input(bits: int, owner: int, *, ahead: bool = False) -> Cost:
    return Cost(0 if ahead else 1, {(owner, (owner + 1) % 3, ahead): bits})


def _output(bits: int, to: int | None) -> Cost:
    receivers = PARTIES if to is None else (to,)
    return Cost(1, {((j + 1) % 3, j, False): bits for j in receivers})


def gate_cost(bits: int, *, rounds: int = 1, ahead: bool = False) -> Cost:
    """Bits that each party sends to the one before it."""
    links: dict[Link, int] = {(i, (i - 1) % 3, ahead): bits for i in PARTIES}
    return Cost(rounds, links)
