"""The costs of verified replicated sharing, from its definition; the tests count the same bits."""

from __future__ import annotations

from ..bit_trees import carry_save_rows, top_bit_rows
from ..cost import Cost, in_turn, planes, side_by_side
from ..replicated.costs import PARTIES, ReplicatedCosts, gate_cost
from .buckets import bucket_plan
from .compare import GUARD_BITS

DIGEST_BITS = 256


class VerifiedCosts(ReplicatedCosts):
    """The cost of each operation on `n` elements, before it is verified, and of verifying it."""

    guard_bits = GUARD_BITS

    # Verification ------------------------------------------------------------------------------

    def verify(self, elements: int = 0, words: int = 0, terms: int | None = None) -> Cost:
        """Of so many products of numbers and words of AND gates since the last verification.

        terms: of all sums of products that matrix products were reduced to, if there were any; they
        are products of numbers too. Afterwards each two parties exchange a number.
        """
        sums = [] if terms is None else [self._toss()]
        if terms:
            sums.append(gate_cost(terms * self.ring_bits))
            elements += terms
        kinds = [(_triples(elements), self.ring_bits), (_triples(words), 64)]
        each = [
            in_turn([gate_cost(count * bits), self._toss(), gate_cost(2 * count * bits)])
            for count, bits in kinds
            if count
        ]
        links = [(i, j, False) for i in PARTIES for j in PARTIES if i != j]
        compared = Cost(1, dict.fromkeys(links, DIGEST_BITS))
        return in_turn([*sums, side_by_side(each), compared])

    def _toss(self) -> Cost:
        """An empty message to each other party, then a part of the seed."""
        return gate_cost(DIGEST_BITS, rounds=2)

    # Input and output --------------------------------------------------------------------------

    def reveal(self, n: int, to: int | None = None) -> Cost:
        """One element to each receiver, and a hash; nothing is to be verified or pending."""
        return self._output(n * self.ring_bits, to)

    def reveal_bits(self, n: int, width: int = 1, to: int | None = None) -> Cost:
        return self._output(planes(width, n), to)

    def _output(self, bits: int, to: int | None) -> Cost:
        receivers = PARTIES if to is None else (to,)
        parts = {((j + 1) % 3, j, False): bits for j in receivers}
        hashes = {((j + 2) % 3, j, False): DIGEST_BITS for j in receivers}
        return self.verify().then(Cost(1, parts | hashes))

    # The core ----------------------------------------------------------------------------------

    def bilinear(self, n_out: int, shift: int = 0, exact: bool = True) -> Cost:
        """One element a party; an exact division stays pending."""
        product = gate_cost(n_out * self.ring_bits)
        return product if exact or not shift else product.then(self.truncate(n_out, shift))

    def truncate(self, n: int, t: int, exact: bool = True) -> Cost:
        """Three majorities, two ANDs, and four bits that become elements."""
        gates = gate_cost(planes(3, n)).then(gate_cost(planes(2, n)))
        return gates.then(self.inject_sums(n, 4, False, 1))

    def signs(self, n: int, width: int, thresholds: int = 1) -> Cost:
        """For each threshold, the top bit of a sum of three."""
        rows = carry_save_rows(3, width) + top_bit_rows(width)
        return gate_cost(thresholds * planes(sum(rows), n), rounds=len(rows))

    def is_zero(self, n: int, width: int) -> Cost:
        """A carry-save step, and the AND of w bits."""
        return gate_cost(planes(width - 1, n)).then(self.bit_and(n, 1, width))

    def _dabits(self, n: int) -> Cost:
        """Random bits as ring elements, ahead: two products."""
        return gate_cost(2 * n * self.ring_bits, rounds=0, ahead=True)


def _triples(gates: int) -> int:
    """How many triples so many gates are compared with."""
    return bucket_plan(gates).triples if gates else 0
