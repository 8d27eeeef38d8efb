"""Additive: masked evaluation by any number of parties, with a dealer that is none of them."""

from __future__ import annotations

from ..clients import from_client
from ..context import Context
from ..forms import MASKED_PARTS, THREE_PARTS, Held, held_parts
from ..masked.base import Roles
from ..masked.protocol import Masked
from ..share import Arith, Bool
from ..steps import Interactive
from . import io
from .costs import AdditiveCosts


def additive_roles(parties: int) -> Roles:
    """Returns the table of roles: all parties evaluate, and the member after them deals.

    Party i holds mask i. Of two parties each holds the mask with the number of the other, so that
    member j lacks part j: the shares of two parties and their dealer are those of `trio`.
    """
    ranks = tuple(range(parties))
    masks = ranks if parties > 2 else ranks[::-1]
    return Roles(dealer=parties, evaluators=ranks, opened=parties, masks=masks)


class Additive(Masked):
    """Semi-honest, all parties but one corrupted, and a dealer that colludes with none of them.

    The dealer runs the program too: it knows shapes and its own masks, and receives no message that
    depends on a secret.
    """

    name = "additive"
    form = MASKED_PARTS
    helpers = 1

    share = Interactive(io.share, Arith, owned=True)
    share_bits = Interactive(io.share_bits, Bool, owned=True)
    reveal = Interactive(io.reveal)
    random = Interactive(io.random, Arith)
    random_bits = Interactive(io.random_bits, Bool)
    refresh = Interactive(io.refresh)
    from_client = Interactive(from_client, Arith, owned=True)
    for_client = Interactive(io.for_client)

    def __init__(self, context: Context, *, exact: bool = True) -> None:
        roles = additive_roles(context.mesh.parties - self.helpers)
        super().__init__(context, roles, exact=exact)
        if self.parties == 2:
            self.form = THREE_PARTS

    @classmethod
    def parts_held(cls, parties: int) -> Held:
        return held_parts(THREE_PARTS if parties == 2 else MASKED_PARTS, parties + 1) or ()

    @classmethod
    def sent_part(cls, parties: int) -> int:
        return additive_roles(parties).opened

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 3) -> AdditiveCosts:
        return AdditiveCosts(ring_bits, additive_roles(parties))

    @property
    def costs(self) -> AdditiveCosts:
        """What each operation is declared to cost."""
        return AdditiveCosts(self.ring.bits, self.roles)
