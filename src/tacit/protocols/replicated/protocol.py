"""Replicated sharing: the operations by name, and the file that each is in."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..hidden_table import HiddenRows
from ..masked import hidden_rows
from ..share import Arith, Bool, Parts
from ..steps import Interactive, Steps
from . import arithmetic, boolean, compare, injection, truncation
from .base import ReplicatedBase
from .costs import ReplicatedCosts


def hide_rows(p: ReplicatedBase, x: Arith, owner: int) -> Steps[HiddenRows]:
    """As in masked evaluation, on the same shares; the next party deals."""
    x = yield from p.settled.steps(x)
    return (yield from hidden_rows.hide_rows(p.as_trio((owner + 1) % 3), x, owner))


def take_hidden(
    p: ReplicatedBase, table: HiddenRows, rows: Tensor | None, count: int
) -> Steps[Arith]:
    """As in masked evaluation."""
    return hidden_rows.take_hidden(p.as_trio(table.dealer), table, rows, count)


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

    hide_rows = Interactive(hide_rows)
    take_hidden = Interactive(take_hidden, Arith, owned=True)

    def can_hide_rows(self, owner: int) -> bool:
        return True

    def dabits(self, count: int, shape: Sequence[int]) -> Steps[tuple[Parts, Parts]]:
        return injection.dabits(self, count, shape)

    @property
    def costs(self) -> ReplicatedCosts:
        """What each operation is declared to cost."""
        return ReplicatedCosts(self.ring.bits, self.adder)

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 3) -> ReplicatedCosts:
        return ReplicatedCosts(ring_bits)
