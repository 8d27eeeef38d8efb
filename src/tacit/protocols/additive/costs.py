"""The costs of `additive`: masked evaluation, with other inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from ..cost import Cost, Link
from ..masked.costs import MaskedCosts


class AdditiveCosts(MaskedCosts):
    """The cost of each operation on `n` elements."""

    def share(self, n: int, owner: int) -> Cost:
        """One element from the owner to each other party."""
        return self._input(n * self.ring_bits, owner)

    def reveal(self, n: int, to: int | None = None) -> Cost:
        """One element from each other party to each receiver, in 1 round."""
        return self._output(n * self.ring_bits, to)

    def _input(self, bits: int, owner: int) -> Cost:
        return Cost(1, self._links([owner], self.roles.evaluators, bits))

    def _output(self, bits: int, to: int | None) -> Cost:
        parties = self.roles.evaluators
        return Cost(1, self._links(parties, parties if to is None else (to,), bits))

    @staticmethod
    def _links(senders: Sequence[int], receivers: Sequence[int], bits: int) -> dict[Link, int]:
        return {(i, j, False): bits for i in senders for j in receivers if i != j}
