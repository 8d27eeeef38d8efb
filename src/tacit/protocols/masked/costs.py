"""The costs of masked evaluation, from its definition (M1 to M14); the tests count the same bits.

Dealt bits go from the dealer to the last evaluator, ahead of time, and half of many bits to the
first of two (NOTE [halves] in deal.py). Opened bits go from each evaluator to every other, in one
round. Nothing else is sent but inputs and outputs. Ring elements have `ring_bits` bits; single bits
are counted in whole words of 64 elements (`cost.planes`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.powers_of_two import table_entries
from ...ring import num_words
from ..cost import Cost, Link, planes
from .base import Roles
from .carry_plan import sign_plan
from .deal import first_half
from .dealer_functions import table_step
from .saturation import num_products, scales

LEAF_BITS = 4  # of a table, and inputs of a gate, in a test for zero


class MaskedCosts:
    """The cost of each operation on `n` elements.

    counts_operands: a product costs what its operands do, not only its result.
    guard_bits: by how many bits the comparison of a pending quotient is wider than the quotient.
    """

    counts_operands = False
    guard_bits = 0

    def __init__(self, ring_bits: int, roles: Roles) -> None:
        self.ring_bits, self.roles = ring_bits, roles

    # Input and output --------------------------------------------------------------------------

    def share(self, n: int, owner: int) -> Cost:
        """One element, to the last evaluator or from it; the dealer's goes ahead of time."""
        return self._input(n * self.ring_bits, owner)

    def share_bits(self, n: int, owner: int, width: int = 1) -> Cost:
        return self._input(planes(width, n), owner)

    def reveal(self, n: int, to: int | None = None) -> Cost:
        """One element to each receiver, in 1 round, for a secret with nothing pending.

        The dealer sends an evaluator the mask that it lacks; the leader sends the dealer m.
        """
        return self._output(n * self.ring_bits, to)

    def reveal_bits(self, n: int, width: int = 1, to: int | None = None) -> Cost:
        return self._output(planes(width, n), to)

    # The core ----------------------------------------------------------------------------------

    def bilinear(self, n_out: int, shift: int = 0, exact: bool = True) -> Cost:
        """One element each way; one dealt for the mask, unless an exact division stays pending.

        Operands have nothing pending. Only the size of the output counts.
        """
        pending = shift > 0 and exact
        return self._gate(0 if pending else n_out * self.ring_bits, n_out * self.ring_bits)

    def truncate(self, n: int, t: int, exact: bool = True) -> Cost:
        """Exact: k + t bits dealt, one element each way. Probabilistic: one element dealt."""
        if not exact:
            return self._dealt(n * self.ring_bits)
        narrow = planes(t, n)
        return self._gate(n * self.ring_bits + narrow, n * self.ring_bits, narrow=narrow)

    def bit_and(self, n: int, rows: int, fan_in: int) -> Cost:
        """Dealt: every product of two or more of the masks (M5). Opened: the result."""
        return self._gate((2**fan_in - 1 - fan_in) * planes(rows, n), planes(rows, n))

    def signs(self, n: int, width: int, thresholds: int = 1) -> Cost:
        """Tables and top bit once, carry nodes for every threshold (M6 to M9)."""
        plan = sign_plan(width, num_words(n), thresholds)
        tables = sum(2**digit - 1 for digit in plan.digits)
        products = sum(level_products(nodes) for nodes in plan.levels)
        opened = sum(2 * len(groups) - 1 for groups in (plan.digits, *plan.levels))
        dealt = planes(tables + 1, n) + thresholds * planes(products, n)
        return self._gate(dealt, thresholds * planes(opened, n), rounds=1 + len(plan.levels))

    def is_zero(self, n: int, width: int) -> Cost:
        """A table for each digit of four bits (P of M6), then gates of four inputs (M5)."""
        groups = fours(width)
        dealt, opened, rounds = sum(2**digit - 1 for digit in groups), len(groups), 1
        while len(groups) > 1:
            groups = fours(len(groups))
            gates = [fan_in for fan_in in groups if fan_in > 1]
            dealt += sum(2**fan_in - 1 - fan_in for fan_in in gates)
            opened, rounds = opened + len(gates), rounds + 1
        return self._gate(planes(dealt, n), planes(opened, n), rounds=rounds)

    def inject(self, n: int, pending: int = 0) -> Cost:
        """The bit and its product with the mask dealt (M10).

        With an exact division on the way, the mask's quotient and 2 (t + 1) bits more.
        """
        elements = n * self.ring_bits
        narrow = 2 * planes(pending + 1, n) if pending else 0
        return self._gate((3 if pending else 2) * elements + narrow, elements, narrow=narrow)

    def inject_sums(self, n: int, bits: int, uses_x: bool, sums: int) -> Cost:
        """Dealt: an element a bit, two if it multiplies x (M10). Opened: an element a sum."""
        dealt = n * bits * self.ring_bits * (2 if uses_x else 1)
        return self._gate(dealt, n * sums * self.ring_bits)

    def fourier(self, n: int, coefficients: int) -> Cost:
        """A sine and a cosine of the mask dealt for each coefficient (M12). The sum opened."""
        return self._gate(2 * coefficients * n * self.ring_bits, n * self.ring_bits)

    def saturated(self, n: int, coefficients: int, middle: int, limit: int) -> Cost:
        """Tables of bits for every scale, and products of masks (M14); sines as `fourier`.

        For few elements with |x| <= limit, and the middle |x| < 2^middle.
        """
        places = scales(middle, limit, self.ring_bits)
        assert places is not None
        count, element = len(places.shifts), n * self.ring_bits
        dealt = (2 * coefficients + num_products(count)) * element
        tables = 2 * count * n << places.width
        return self._gate(dealt + tables, planes(2 * count, n) + 2 * element, rounds=2)

    def exp_negative(self, n: int, fraction_bits: int, exact: bool = True) -> Cost:
        """4, 8, 16 or 64 powers dealt (M13). The chosen one opened, times a public factor.

        fraction_bits: without the extra ones.
        """
        entries = table_entries(table_step(self.ring_bits, fraction_bits, exact=exact))
        return self._gate(entries * n * self.ring_bits, n * self.ring_bits)

    def hide_rows(self, n: int, owner: int) -> Cost:
        """One element from the dealer to each evaluator but the owner, ahead of time."""
        dealer, parties = self._roles_of(owner)
        return Cost(0, {(dealer, e, True): n * self.ring_bits for e in parties if e != owner})

    def take_hidden(self, count: int, n: int, owner: int) -> Cost:
        """A word for each of `count` rows, from the owner; then their n elements opened."""
        _, parties = self._roles_of(owner)
        told = Cost(1, {(owner, e, False): count * 64 for e in parties if e != owner})
        opened = {(a, b, False): n * self.ring_bits for a in parties for b in parties if a != b}
        return told.then(Cost(1, opened))

    def _roles_of(self, owner: int) -> tuple[int, tuple[int, ...]]:
        """Returns the dealer and the evaluators; if the owner deals, the last evaluator does."""
        roles = self.roles
        if owner != roles.dealer:
            return roles.dealer, roles.evaluators
        return roles.leader, (roles.dealer, *roles.evaluators[:-1])

    # Links -------------------------------------------------------------------------------------

    def _input(self, bits: int, owner: int) -> Cost:
        roles = self.roles
        receiver = roles.leader if owner != roles.leader else roles.evaluators[0]
        ahead = owner == roles.dealer
        return Cost(0 if ahead else 1, {(owner, receiver, ahead): bits})

    def _output(self, bits: int, to: int | None) -> Cost:
        roles = self.roles
        receivers = (roles.dealer, *roles.evaluators) if to is None else (to,)
        senders = {j: roles.leader if j == roles.dealer else roles.dealer for j in receivers}
        return Cost(1, {(senders[j], j, False): bits for j in receivers})

    def _dealt(self, bits: int, narrow: int = 0) -> Cost:
        """Bits from the dealer to the leader; of many, half to the first of two evaluators.

        narrow: of them, those that are a few bits of each element.
        """
        dealer, first, leader = self.roles.dealer, self.roles.evaluators[0], self.roles.leader
        other = first_half(bits, narrow) if self.roles.deals_halves else 0
        links = {(dealer, leader, True): bits - other, (dealer, first, True): other}
        return Cost(0, {link: bits for link, bits in links.items() if bits})

    def _gate(self, dealt: int, opened: int, rounds: int = 1, narrow: int = 0) -> Cost:
        """Bits dealt, and bits that every evaluator sends to every other."""
        parties = self.roles.evaluators
        links: dict[Link, int] = {(a, b, False): opened for a in parties for b in parties if a != b}
        return self._dealt(dealt, narrow).then(Cost(rounds, links))


def level_products(nodes: Sequence[int]) -> int:
    """Bits dealt for the carry nodes of a level (M7): all but the first have two outputs."""
    return sum(_carry_products(d) + (2 ** (d - 1) - 1 if i else 0) for i, d in enumerate(nodes))


def _carry_products(d: int) -> int:
    return (2**d - 2 - (d - 1)) + (2 ** (d - 1) - d) - (d - 1) + 1


def fours(count: int) -> list[int]:
    return [min(LEAF_BITS, count - i) for i in range(0, count, LEAF_BITS)]
