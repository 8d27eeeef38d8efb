"""Trio: masked evaluation by three parties, one of whom deals (arXiv 2206.03776)."""

from __future__ import annotations

from ..errors import ConfigError
from .context import Context
from .masked.base import Roles
from .masked.costs import MaskedCosts
from .masked.protocol import Masked
from .three_party.io import InputRoles
from .three_party.protocol import ThreeParty


def trio_roles(dealer: int, first: int, second: int) -> Roles:
    """Returns the table of roles: the dealer lacks m, each evaluator lacks the other's mask."""
    return Roles(dealer, (first, second), opened=dealer, masks=(second, first))


class Trio(Masked, ThreeParty):
    """Semi-honest, one corrupted party of three. `roles`: the dealer and the two evaluators."""

    name = "trio"

    def __init__(
        self, context: Context, *, roles: tuple[int, int, int] = (0, 1, 2), exact: bool = True
    ) -> None:
        if sorted(roles) != [0, 1, 2]:
            raise ConfigError(
                f"roles={roles}", limit="the dealer and two evaluators, of parties 0, 1, 2"
            )
        super().__init__(context, trio_roles(*roles), exact=exact)
        dealer, first, second = roles
        offline = context.mesh.deals_offline  # then nothing dealt may depend on the dealer's inputs
        self.input_roles = {
            dealer: InputRoles(first, second, ahead=not offline, masked=offline),
            first: InputRoles(dealer, second),
            second: InputRoles(dealer, first),
        }

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 3) -> MaskedCosts:
        return MaskedCosts(ring_bits, trio_roles(0, 1, 2))

    def rotated(self, by: int = 1) -> Trio:
        """Returns the same protocol on the same shares, with every role `by` parties further."""
        dealer, (first, second) = self.roles.dealer, self.roles.evaluators
        rotated = ((dealer + by) % 3, (first + by) % 3, (second + by) % 3)
        return Trio(self.context, roles=rotated, exact=self.exact)

    def with_dealer(self, dealer: int) -> Trio:
        return self.rotated(dealer - self.roles.dealer)

    def reveal_sender(self, receiver: int) -> int:
        dealer = self.roles.dealer
        return self.roles.leader if receiver == dealer else dealer
