"""Replicated sharing: the table of contents."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import ConfigError, ProtocolError
from ..context import Context
from ..share import Arith, Bool
from ..steps import Interactive
from ..three_party.io import PARTIES
from ..three_party.protocol import Three
from ..trio import Trio
from . import arithmetic, boolean, compare, convert, truncation
from .costs import ReplicatedCosts

CONSTANT = 0  # the part to which public constants are added


class Replicated(Three):
    """Semi-honest, one corrupted party of three.

    held: the parts that this party i holds, i+1 and i+2; reader, writer: the parties i-1 and i+1,
    to whom it sends what it computed and who sends to it; adder: the party that adds up its two
    parts of a secret where two operands are easier than three, and sends a little more therefore.
    """

    name = "replicated"

    def __init__(self, context: Context, *, adder: int = 0, exact: bool = True) -> None:
        if adder not in PARTIES:
            raise ConfigError(f"adder={adder}: the parties are 0, 1 and 2")
        super().__init__(context, exact=exact)
        self.adder = adder
        self.held = (self.rank + 1) % 3, (self.rank + 2) % 3
        self.writer, self.reader = self.held

    bilinear = Interactive(arithmetic.bilinear, Arith)
    truncate = Interactive(truncation.truncate, Arith)
    settled = Interactive(truncation.settled, Arith)
    bit_and = Interactive(boolean.bit_and, Bool)
    sign = Interactive(compare.sign, Bool)
    signs = Interactive(compare.signs)
    is_zero = Interactive(compare.is_zero, Bool)
    inject = Interactive(convert.inject, Arith)
    inject_sums = Interactive(convert.inject_sums)

    @property
    def costs(self) -> ReplicatedCosts:
        """What each operation is declared to cost."""
        return ReplicatedCosts(self.ring.bits, self.adder)

    @classmethod
    def declared_costs(cls, ring_bits: int) -> ReplicatedCosts:
        return ReplicatedCosts(ring_bits)

    def rotated(self, by: int = 1) -> Replicated:
        """The same protocol on the same shares, with the adder `by` parties further."""
        return Replicated(self.context, adder=(self.adder + by) % 3, exact=self.exact)

    def as_trio(self, dealer: int) -> Trio:
        """Masked evaluation on the same shares."""
        roles = dealer, (dealer + 1) % 3, (dealer + 2) % 3
        return Trio(self.context, roles=roles, exact=self.exact)

    def helpers(self, owner: int) -> tuple[int, int]:
        return (owner + 2) % 3, (owner + 1) % 3

    def informant(self, party: int) -> int:
        return (party + 1) % 3

    def alike(self, x: Arith, y: Arith) -> tuple[Arith, Arith]:
        if x.dealer != y.dealer:
            raise ProtocolError(
                "one of these secrets is a product whose mask only a dealer knows: settle it first"
            )
        return super().alike(x, y)

    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        opened = x.dealer if isinstance(x, Arith) and x.dealer is not None else CONSTANT
        return (opened,) if opened in x.parts else ()

    def public(self, value: Tensor) -> Arith:
        value = value.to(self.ring.dtype, copy=True)
        low, high = torch.aminmax(value) if value.numel() else (torch.zeros(()),) * 2
        value = value.to(self.device)
        zero = torch.zeros_like(value)
        parts = {i: value if i == CONSTANT else zero for i in self.held}
        return Arith(parts, self.ring, limit=max(-int(low), int(high)))

    def public_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        planes = planes.to(self.device)
        zero = torch.zeros_like(planes)
        return Bool({i: planes if i == CONSTANT else zero for i in self.held}, shape)
