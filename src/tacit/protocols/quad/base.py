"""The two sides, and which part of a secret each party holds.

A secret has four parts: part j is held by all parties but j. Parts 1 and 2 add up to a, which the
mask side knows, and parts 0 and 3 to m, which the value side knows. Party i's share of the other
side's term is part 3 - i.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import ProtocolError
from ..base import Protocol
from ..context import Context
from ..products.bilinear import sum_parts
from ..share import WHOLE_MASK, Arith, Bool, Parts
from .verification import make_views

PARTIES = (0, 1, 2, 3)
MASK_SIDE, VALUE_SIDE = (0, 3), (1, 2)
MASK_PARTS, VALUE_PARTS = (1, 2), (0, 3)
CONSTANT = 3  # the part to which public constants are added
DEALER = 3  # marks a product whose mask is known to the mask side alone, not yet in two shares


def holders(part: int) -> tuple[int, ...]:
    """Returns the three parties that hold a part, and the key that it is drawn from."""
    return tuple(party for party in PARTIES if party != part)


class QuadBase(Protocol):
    """One party's side and parts: what every operation in this folder uses.

    is_first: of its side, this party receives what the other side deals, and adds the terms that
    its own side knows. term_parts: the parts whose sum its side knows. own: the number of its share
    of the other side's term.
    """

    form = "four parts"
    verifies_reveals = True

    def __init__(self, context: Context, *, exact: bool = True) -> None:
        super().__init__(context, exact=exact)
        self.on_mask_side = self.rank in MASK_SIDE
        self.is_first = self.rank in (0, 2)
        self.term_parts = MASK_PARTS if self.on_mask_side else VALUE_PARTS
        self.own = 3 - self.rank
        self.views = make_views(context)

    # Parts by side -----------------------------------------------------------------------------

    def known_parts(self, x: Arith) -> list[Tensor]:
        """Returns ring elements that add up to the term that this party's side knows."""
        if self.on_mask_side and WHOLE_MASK in x.parts:
            return [x.parts[WHOLE_MASK]]
        return [x.parts[i] for i in self.term_parts]

    def known(self, x: Arith) -> Tensor:
        """Returns the term that this party's side knows: m or a."""
        return sum_parts(self.known_parts(x))

    def known_bits(self, x: Bool) -> Tensor:
        """Returns the term of bits that this party's side knows."""
        first, second = self.term_parts
        return x.parts[first] ^ x.parts[second]

    def own_share(self, x: Arith | Bool) -> Tensor:
        """Returns this party's share of the term that the other side knows."""
        return x.parts[self.own]

    # What the local operations of `core.py` ask for ----------------------------------------------

    def unsplit(self, x: Arith) -> Arith:
        """Returns x with its mask known to the mask side alone, as a product has it. Local."""
        if x.dealer is not None:
            return x
        parts = {i: x.parts[i] for i in VALUE_PARTS if i in x.parts}
        if self.on_mask_side:
            parts[WHOLE_MASK] = self.known(x)
        share = x.with_parts(parts)
        share.dealer = DEALER
        return share

    def aligned(self, x: Arith, y: Arith) -> tuple[Arith, Arith]:
        x, y = super().aligned(x, y)
        if x.dealer == y.dealer:
            return x, y
        if {x.dealer, y.dealer} - {None, DEALER}:
            raise ProtocolError("this secret was multiplied by another protocol")
        return self.unsplit(x), self.unsplit(y)

    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        return (CONSTANT,) if self.rank != CONSTANT else ()

    def constant(self, value: Tensor, *, limit: int) -> Arith:
        """The value as one part; the other parts are zero."""
        return Arith(self._public_parts(value), self.ring, limit=limit)

    def constant_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        """The planes as one part; the other parts are zero."""
        return Bool(self._public_parts(planes), shape)

    def _public_parts(self, value: Tensor) -> Parts:
        held = [part for part in PARTIES if part != self.rank]
        return {part: value if part == CONSTANT else torch.zeros_like(value) for part in held}
