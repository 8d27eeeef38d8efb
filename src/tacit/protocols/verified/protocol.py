"""Verified replicated sharing: the operations by name, and the file that each is in."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..replicated import boolean
from ..replicated import injection as semi_honest
from ..share import Arith, Bool, Parts
from ..steps import Interactive, Steps
from ..three_party.io import PARTIES
from . import arithmetic, compare, injection, io, truncation, verify_claims
from .base import VerifiedBase
from .costs import VerifiedCosts


class ReplicatedMalicious(VerifiedBase):
    """Three parties, one of whom may deviate from the protocol in any way: then all others end."""

    name = "replicated-malicious"

    reveal = Interactive(io.reveal)
    refresh = Interactive(io.refresh)
    from_client = Interactive(io.from_client, Arith, owned=True)
    for_client = Interactive(io.for_client)
    compare_views = Interactive(verify_claims.verify)

    bilinear = Interactive(arithmetic.bilinear, Arith)
    truncate = Interactive(truncation.truncate, Arith, chunk_bytes=2048)
    settled = Interactive(truncation.settled, Arith)
    bit_and = Interactive(boolean.bit_and, Bool)
    sign = Interactive(compare.sign, Bool)
    signs = Interactive(compare.signs, chunk_bytes=compare.signs_bytes)
    is_zero = Interactive(compare.is_zero, Bool)
    inject = Interactive(semi_honest.inject, Arith)
    inject_sums = Interactive(injection.inject_sums, chunk_bytes=injection.inject_sums_bytes)

    def verify(self) -> None:
        self.compare_views()

    def gate(self, x: Parts, y: Parts) -> Steps[Parts]:
        return compare.gates(self, x, y)

    def dabits(self, count: int, shape: Sequence[int]) -> Steps[tuple[Parts, Parts]]:
        return injection.dabits(self, count, shape)

    @classmethod
    def client_senders(cls, parties: int) -> Sequence[int]:
        return PARTIES

    @classmethod
    def joined_output(cls, messages: Sequence[Tensor]) -> Tensor:
        return io.joined_output(messages)

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 3) -> VerifiedCosts:
        return VerifiedCosts(ring_bits)

    @property
    def costs(self) -> VerifiedCosts:
        """What each operation is declared to cost."""
        return VerifiedCosts(self.ring.bits)
