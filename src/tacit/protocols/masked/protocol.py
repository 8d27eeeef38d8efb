"""Masked evaluation: the operations by name, and the file that each is in."""

from __future__ import annotations

from ..share import Arith, Bool
from ..steps import Interactive
from . import (
    arithmetic,
    boolean,
    compare,
    dealer_functions,
    hidden_rows,
    injection,
    saturation,
    truncation,
)
from .base import MaskedBase
from .costs import MaskedCosts


class Masked(MaskedBase):
    """A protocol in which a dealer deals and evaluators compute, by a table of roles."""

    dealt_tables = True

    bilinear = Interactive(arithmetic.bilinear, Arith)
    truncate = Interactive(truncation.truncate, Arith, chunk_bytes=64)
    settled = Interactive(truncation.settled, Arith)
    bit_and = Interactive(boolean.bit_and, Bool)
    sign = Interactive(compare.sign, Bool, chunk_bytes=144)
    signs = Interactive(compare.signs, chunk_bytes=compare.signs_bytes)
    is_zero = Interactive(compare.is_zero, Bool, chunk_bytes=112)
    inject = Interactive(injection.inject, Arith, chunk_bytes=144)
    inject_sums = Interactive(injection.inject_sums, chunk_bytes=injection.inject_sums_bytes)
    relu_with_bit = Interactive(injection.relu_with_bit, Arith, Bool, chunk_bytes=256)
    fourier = Interactive(
        dealer_functions.fourier, Arith, chunk_bytes=dealer_functions.fourier_bytes
    )
    saturated = Interactive(saturation.saturated, Arith)
    exp_negative = Interactive(dealer_functions.exp_table, Arith, chunk_bytes=1200)

    hide_rows = Interactive(hidden_rows.hide_rows)
    take_hidden = Interactive(hidden_rows.take_hidden, Arith, owned=True)

    def can_hide_rows(self, owner: int) -> bool:
        """A dealer whose messages are stored cannot evaluate, as it would to take rows itself."""
        return owner != self.roles.dealer or not self.context.mesh.deals_offline

    @property
    def costs(self) -> MaskedCosts:
        """What each operation is declared to cost."""
        return MaskedCosts(self.ring.bits, self.roles)
