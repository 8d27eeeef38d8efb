"""Trio: masked evaluation by three parties, one of whom deals (arXiv 2206.03776)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ..errors import ConfigError
from .context import Context
from .masked.base import Roles
from .masked.costs import MaskedCosts
from .masked.protocol import Masked
from .three_party.io import InputRoles
from .three_party.protocol import ThreeParty


@cache
def trio_roles(dealer: int, first: int, second: int) -> Roles:
    """Returns the table of roles: the dealer lacks m, each evaluator lacks the other's mask."""
    return Roles(dealer, (first, second), opened=dealer, masks=(second, first))


@cache
def input_roles(roles: Roles, offline: bool) -> Mapping[int, InputRoles]:
    """Returns how the input of each party is shared.

    offline: the dealer's messages are those of a stored run: they must not depend on its inputs.
    """
    dealer, (first, second) = roles.dealer, roles.evaluators
    return {
        dealer: InputRoles(first, second, ahead=not offline, masked=offline),
        first: InputRoles(dealer, second),
        second: InputRoles(dealer, first),
    }


class Trio(Masked, ThreeParty):
    """Semi-honest, one corrupted party of three. `roles`: the dealer and the two evaluators."""

    name = "trio"
    num_turns = 3

    def __init__(
        self, context: Context, *, roles: tuple[int, int, int] = (0, 1, 2), exact: bool = True
    ) -> None:
        if sorted(roles) != [0, 1, 2]:
            raise ConfigError(
                f"roles={roles}", limit="the dealer and two evaluators, of parties 0, 1, 2"
            )
        super().__init__(context, trio_roles(*roles), exact=exact)

    def _assign(self, roles: Roles) -> None:
        super()._assign(roles)
        self.input_roles = input_roles(roles, self.context.mesh.deals_offline)

    def turn_roles(self, by: int) -> None:
        self._assign(self._turned(by))

    def _turned(self, by: int) -> Roles:
        ranks = (self.roles.dealer, *self.roles.evaluators)
        return trio_roles(*((rank + by) % 3 for rank in ranks))

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 3) -> MaskedCosts:
        return MaskedCosts(ring_bits, trio_roles(0, 1, 2))

    def rotated(self, by: int = 1) -> Trio:
        """Returns the same protocol on the same shares, with every role `by` parties further."""
        roles = self._turned(by)
        first, second = roles.evaluators
        return Trio(self.context, roles=(roles.dealer, first, second), exact=self.exact)

    def with_dealer(self, dealer: int) -> Trio:
        return self.rotated(dealer - self.roles.dealer)

    def reveal_sender(self, receiver: int) -> int:
        dealer = self.roles.dealer
        return self.roles.leader if receiver == dealer else dealer
