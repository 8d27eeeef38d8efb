"""Quad: the operations by name, and the file that each is in."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..share import Arith, Bool
from ..steps import Interactive
from . import arithmetic, boolean, compare, injection, io, truncation, verification
from .base import PARTIES, QuadBase, holders
from .costs import QuadCosts


class Quad(QuadBase):
    """Four parties, one of whom may deviate from the protocol in any way: then all others end."""

    name = "quad"

    share = Interactive(io.share, Arith, owned=True)
    share_bits = Interactive(io.share_bits, Bool, owned=True)
    reveal = Interactive(io.reveal)
    random = Interactive(io.random, Arith)
    random_bits = Interactive(io.random_bits, Bool)
    refresh = Interactive(io.refresh)
    from_client = Interactive(io.from_client, Arith, owned=True)
    for_client = Interactive(io.for_client)
    compare_views = Interactive(verification.verify)

    bilinear = Interactive(arithmetic.bilinear, Arith)
    truncate = Interactive(truncation.truncate, Arith, chunk_bytes=128)
    settled = Interactive(truncation.settled, Arith)
    bit_and = Interactive(boolean.bit_and, Bool)
    sign = Interactive(compare.sign, Bool, chunk_bytes=320)
    signs = Interactive(compare.signs, chunk_bytes=compare.signs_bytes)
    is_zero = Interactive(compare.is_zero, Bool, chunk_bytes=240)
    inject = Interactive(injection.inject, Arith, chunk_bytes=288)
    inject_sums = Interactive(injection.inject_sums, chunk_bytes=injection.inject_sums_bytes)

    def verify(self) -> None:
        self.compare_views()

    @classmethod
    def parts_held(cls, parties: int) -> list[tuple[int, ...]]:
        return [holders(party) for party in range(parties)]

    @classmethod
    def sent_part(cls, parties: int) -> int:
        return 3

    @classmethod
    def client_senders(cls, parties: int) -> Sequence[int]:
        return PARTIES

    @classmethod
    def joined_output(cls, messages: Sequence[Tensor]) -> Tensor:
        return io.joined_output(messages)

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 4) -> QuadCosts:
        return QuadCosts(ring_bits)

    @property
    def costs(self) -> QuadCosts:
        """What each operation is declared to cost."""
        return QuadCosts(self.ring.bits)
