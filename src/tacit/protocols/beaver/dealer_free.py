"""Additive shares without a dealer: triples from oblivious transfers between the parties."""

from __future__ import annotations

from ..context import Context
from ..forms import OWN_PARTS
from ..share import Arith
from ..steps import Interactive
from . import wraps
from .dealer_free_costs import DealerFreeCosts
from .pairwise import Pairwise
from .protocol import BeaverOperations


class DealerFree(BeaverOperations):
    """Semi-honest, all parties but one corrupted, and nobody else takes part."""

    name = "dealer-free"
    form = OWN_PARTS
    is_recordable = False  # transfers are made on the CPU, with numbers that grow
    can_interleave = False  # a call that ends early would leave these numbers different
    source: Pairwise

    truncate = Interactive(wraps.truncate, Arith, chunk_bytes=128)

    def __init__(self, context: Context, *, exact: bool = True) -> None:
        super().__init__(context, exact=exact)
        self.source = Pairwise(self)
        self.tracks_owners = self.parties == 2

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 3) -> DealerFreeCosts:
        return DealerFreeCosts(ring_bits, parties)

    @property
    def costs(self) -> DealerFreeCosts:
        """What each operation is declared to cost."""
        return DealerFreeCosts(self.ring.bits, self.parties)

    def wipe(self) -> None:
        super().wipe()
        self.source.wipe()
