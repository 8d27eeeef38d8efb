"""Beaver triples: the operations by name, and the file that each is in."""

from __future__ import annotations

from ..context import Context
from ..forms import DEALT_PARTS, Held, held_parts
from ..share import Arith, Bool
from ..steps import Interactive
from . import arithmetic, boolean, compare, injection, io, truncation
from .base import BeaverBase
from .costs import BeaverCosts
from .dealt import Dealt


class BeaverOperations(BeaverBase):
    """What does not depend on where the triples come from."""

    share = Interactive(io.share, Arith, owned=True)
    share_bits = Interactive(io.share_bits, Bool, owned=True)
    reveal = Interactive(io.reveal)
    random = Interactive(io.random, Arith)
    random_bits = Interactive(io.random_bits, Bool)
    refresh = Interactive(io.refresh)
    from_client = Interactive(io.from_client, Arith, owned=True)
    for_client = Interactive(io.for_client)

    bilinear = Interactive(arithmetic.bilinear, Arith)
    settled = Interactive(truncation.settled, Arith)
    bit_and = Interactive(boolean.bit_and, Bool)
    sign = Interactive(compare.sign, Bool)
    signs = Interactive(compare.signs, chunk_bytes=compare.signs_bytes)
    is_zero = Interactive(compare.is_zero, Bool, chunk_bytes=128)
    inject = Interactive(injection.inject, Arith)
    inject_sums = Interactive(injection.inject_sums, chunk_bytes=injection.inject_sums_bytes)

    @classmethod
    def parts_held(cls, parties: int) -> Held:
        return held_parts(cls.form, parties + cls.helpers) or ()

    @classmethod
    def sent_part(cls, parties: int) -> int:
        return parties - 1


class Beaver(BeaverOperations):
    """Semi-honest, all parties but one corrupted, and a dealer that colludes with none of them."""

    name = "beaver"
    form = DEALT_PARTS
    helpers = 1
    source: Dealt

    truncate = Interactive(truncation.truncate, Arith, chunk_bytes=64)

    def __init__(self, context: Context, *, exact: bool = True) -> None:
        super().__init__(context, exact=exact)
        self.source = Dealt(context)

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 3) -> BeaverCosts:
        return BeaverCosts(ring_bits, parties)

    @property
    def costs(self) -> BeaverCosts:
        """What each operation is declared to cost."""
        return BeaverCosts(self.ring.bits, self.parties)
