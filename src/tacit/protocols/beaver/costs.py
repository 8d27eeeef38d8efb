"""The costs of Beaver triples with a dealer, from their definition; the tests count the same bits.

Dealt bits go from the dealer to the last party, ahead of time, and half of many bits to the first
of two parties; opened bits go from each party to every other, in one round. Ring elements have
`ring_bits` bits; single bits are counted in whole words of 64 elements (`cost.planes`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..bit_trees import and_tree_rows, carry_save_rows, top_bit_rows
from ..cost import Cost, Link, planes
from ..masked.deal import first_half
from .compare import guard_bits, zero_rows


class BeaverCosts:
    """The cost of each operation on `n` elements. As `MaskedCosts`."""

    counts_operands = True

    def __init__(self, ring_bits: int, parties: int) -> None:
        self.ring_bits, self.parties = ring_bits, parties
        self.guard_bits = guard_bits(parties)

    # Input and output --------------------------------------------------------------------------

    def share(self, n: int, owner: int) -> Cost:
        """Nothing: the sharing of zero comes from keys."""
        return Cost()

    def share_bits(self, n: int, owner: int, width: int = 1) -> Cost:
        return Cost()

    def reveal(self, n: int, to: int | None = None) -> Cost:
        """One element from each other party to each receiver, in 1 round."""
        return self._output(n * self.ring_bits, to)

    def reveal_bits(self, n: int, width: int = 1, to: int | None = None) -> Cost:
        return self._output(planes(width, n), to)

    # The core ----------------------------------------------------------------------------------

    def bilinear(
        self,
        n_out: int,
        shift: int = 0,
        exact: bool = True,
        operands: Sequence[int] | None = None,
    ) -> Cost:
        """The result dealt, the operands opened: by default two of the result's size.

        A square has one. A probabilistic division follows at once.
        """
        opened = sum((n_out, n_out) if operands is None else operands)
        product = self._gate(n_out * self.ring_bits, opened * self.ring_bits)
        return product if exact or not shift else product.then(self.truncate(n_out, shift, False))

    def truncate(self, n: int, t: int, exact: bool = True) -> Cost:
        """Exact: k + t bits dealt, one element each way.

        Probabilistic: nothing for two parties; else one element dealt, and one from each other
        party to the last.
        """
        elements, last = n * self.ring_bits, self.parties - 1
        if exact:
            narrow = planes(t, n)
            return self._gate(elements + narrow, elements, narrow=narrow)
        if self.parties == 2:
            return Cost()
        sent: dict[Link, int] = {(i, last, False): elements for i in range(last)}
        return self._dealt(elements).then(Cost(1, sent))

    def bit_and(self, n: int, rows: int, fan_in: int) -> Cost:
        """fan_in - 1 gates of two inputs, in ceil(log2 fan_in) levels."""
        return self._ands(n, and_tree_rows(fan_in, rows))

    def signs(self, n: int, width: int, thresholds: int = 1) -> Cost:
        """For each threshold: carry-save steps, and the top bit of a sum of two."""
        rows = carry_save_rows(self.parties, width) + top_bit_rows(width)
        return self._ands(n, rows, thresholds)

    def is_zero(self, n: int, width: int) -> Cost:
        """The AND of w bits; before it, for many parties, carry-save steps and w - 1 ORs."""
        return self._ands(n, zero_rows(self.parties, width))

    def inject(self, n: int, pending: int = 0, exact: bool = True) -> Cost:
        """Two elements dealt, an element and a bit each way; a pending division comes first."""
        before = self.truncate(n, pending, exact) if pending else Cost()
        return before.then(self.inject_sums(n, 1, True, 1))

    def inject_sums(self, n: int, bits: int, uses_x: bool, sums: int) -> Cost:
        """Dealt: an element a bit, two if it multiplies x. Opened: a bit each, and x once."""
        elements = n * self.ring_bits
        opened = planes(bits, n) + (elements if uses_x else 0)
        return self._gate(bits * elements * (2 if uses_x else 1), opened)

    # Links -------------------------------------------------------------------------------------

    def _ands(self, n: int, rows: Sequence[int], times: int = 1) -> Cost:
        """A bit dealt a gate, and two bits each way; one round for each entry of `rows`."""
        gates = times * planes(sum(rows), n)
        return self._gate(gates, 2 * gates, len(rows))

    def _output(self, bits: int, to: int | None) -> Cost:
        parties = range(self.parties)
        receivers = parties if to is None else (to,)
        return Cost(1, {(i, j, False): bits for i in parties for j in receivers if i != j})

    def _dealt(self, bits: int, narrow: int = 0) -> Cost:
        """Bits from the dealer to the last party; of many, half to the first of two parties.

        narrow: of them, those that are a few bits of each element.
        """
        dealer, last = self.parties, self.parties - 1
        first = first_half(bits, narrow) if self.parties == 2 else 0
        links = {(dealer, 0, True): first, (dealer, last, True): bits - first}
        return Cost(0, {link: bits for link, bits in links.items() if bits})

    def _gate(self, dealt: int, opened: int, rounds: int = 1, narrow: int = 0) -> Cost:
        """Bits dealt, and bits that every party sends to every other."""
        return self._dealt(dealt, narrow).then(Cost(rounds, self._output(opened, None).bits))
