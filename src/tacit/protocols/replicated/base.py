"""Which parts a party of replicated sharing holds, and to whom it sends.

x = x_0 + x_1 + x_2 mod 2^k (exclusive or for bits). Party i lacks part x_i: it holds parts i+1 and
i+2, and the keys K_{i+1} and K_{i+2} that these parts are drawn from (all indices mod 3).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from ...errors import ConfigError, ProtocolError
from ..context import Context
from ..products.bilinear import Bilinear
from ..share import Arith, Bool, Parts
from ..steps import Steps
from ..three_party.io import PARTIES, InputRoles
from ..three_party.protocol import ThreeParty
from ..trio import Trio

CONSTANT = 0  # the part to which public constants are added


class ReplicatedBase(ThreeParty):
    """One party's parts and neighbours: what every operation in this folder uses.

    held: the parts i+1 and i+2 that this party i holds. previous, next: the parties i-1, to whom it
    sends the part that it computed, and i+1, who sends to it. adder: the party that adds up its two
    parts of a secret where an operation needs two operands, not three; it sends a little more.
    """

    def __init__(self, context: Context, *, adder: int = 0, exact: bool = True) -> None:
        if adder not in PARTIES:
            raise ConfigError(f"adder={adder}", limit="the parties are 0, 1 and 2")
        super().__init__(context, exact=exact)
        self.adder = adder
        self.held = (self.rank + 1) % 3, (self.rank + 2) % 3
        self.next, self.previous = self.held
        self.input_roles = {i: InputRoles((i + 2) % 3, (i + 1) % 3) for i in PARTIES}

    def rotated(self, by: int = 1) -> Self:
        """Returns the same protocol on the same shares, with the adder `by` parties further."""
        return type(self)(self.context, adder=(self.adder + by) % 3, exact=self.exact)

    def as_trio(self, dealer: int) -> Trio:
        """Returns masked evaluation on the same shares."""
        roles = dealer, (dealer + 1) % 3, (dealer + 2) % 3
        return Trio(self.context, roles=roles, exact=self.exact)

    # What a protocol that verifies its products is told -------------------------------------------

    def note_product(self, op: Bilinear, x: Parts, y: Parts, z: Parts) -> None:
        """Is told that the parties computed z = op(x, y) together."""

    def note_gates(self, x: Parts, y: Parts, z: Parts) -> None:
        """Is told that the parties computed z = x & y together."""

    def note_opening(self, x: Parts, missing: Tensor) -> None:
        """Is told that x was opened to all, and the part of it that arrived here."""

    @abstractmethod
    def dabits(self, count: int, shape: Sequence[int]) -> Steps[tuple[Parts, Parts]]:
        """Returns random bits that nobody knows, as planes and as ring elements."""

    # What the local operations of `core.py` ask for ----------------------------------------------

    def reveal_sender(self, receiver: int) -> int:
        return (receiver + 1) % 3

    def aligned(self, x: Arith, y: Arith) -> tuple[Arith, Arith]:
        if x.dealer != y.dealer:
            raise ProtocolError(
                "one of these secrets is a product whose mask only a dealer knows",
                remedy="settle it first",
            )
        return super().aligned(x, y)

    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        opened = x.dealer if isinstance(x, Arith) and x.dealer is not None else CONSTANT
        return (opened,) if opened in x.parts else ()

    def constant(self, value: Tensor, *, limit: int) -> Arith:
        """The value as part 0; the other parts are zero."""
        zero = torch.zeros_like(value)
        parts = {i: value if i == CONSTANT else zero for i in self.held}
        return Arith(parts, self.ring, limit=limit)

    def constant_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        """The planes as part 0; the other parts are zero."""
        zero = torch.zeros_like(planes)
        return Bool({i: planes if i == CONSTANT else zero for i in self.held}, shape)
