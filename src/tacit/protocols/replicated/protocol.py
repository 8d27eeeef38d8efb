"""Replicated sharing: the operations by name, and the file that each is in."""

from __future__ import annotations

from collections.abc import Sequence

from ..share import Arith, Bool, Parts
from ..steps import Interactive, Steps
from . import arithmetic, boolean, compare, injection, truncation
from .base import ReplicatedBase
from .costs import ReplicatedCosts


class Replicated(ReplicatedBase):
    """Semi-honest, one corrupted party of three."""

    name = "replicated"

    bilinear = Interactive(arithmetic.bilinear, Arith)
    truncate = Interactive(truncation.truncate, Arith)
    settled = Interactive(truncation.settled, Arith)
    bit_and = Interactive(boolean.bit_and, Bool)
    sign = Interactive(compare.sign, Bool)
    signs = Interactive(compare.signs, chunk_bytes=compare.signs_bytes)
    is_zero = Interactive(compare.is_zero, Bool)
    inject = Interactive(injection.inject, Arith)
    inject_sums = Interactive(injection.inject_sums, chunk_bytes=injection.inject_sums_bytes)

    def dabits(self, count: int, shape: Sequence[int]) -> Steps[tuple[Parts, Parts]]:
        return injection.dabits(self, count, shape)

    @property
    def costs(self) -> ReplicatedCosts:
        """What each operation is declared to cost."""
        return ReplicatedCosts(self.ring.bits, self.adder)

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 3) -> ReplicatedCosts:
        return ReplicatedCosts(ring_bits)
