"""What is noted for the verification, and what two parties compare."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

from torch import Tensor

from ...errors import ProtocolError
from ..context import Context
from ..products.bilinear import MUL, Bilinear
from ..quad.verification import make_views
from ..replicated.base import ReplicatedBase
from ..share import Parts
from ..steps import Steps
from ..trio import Trio
from .claims import Claims, Gates, Product


class VerifiedBase(ReplicatedBase):
    """claims: what is to be verified. views: what this party knows together with another.

    kept: claims of which a verification has begun and none has ended.
    """

    is_recordable = False  # a replay would not note what it computes
    verifies_reveals = True

    def __init__(self, context: Context, *, exact: bool = True) -> None:
        super().__init__(context, exact=exact)
        self.claims, self.views = Claims(), make_views(context)
        self.kept: list[Claims] = []
        first, second = (self.rank, self.next), (self.rank, self.previous)
        self._with_next, self._with_previous = tuple(sorted(first)), tuple(sorted(second))

    def rotated(self, by: int = 1) -> Self:
        """Returns this protocol: all parties have the same role."""
        return self

    def as_trio(self, dealer: int) -> Trio:
        raise ProtocolError(
            "one of these secrets is a product that only a dealer can complete",
            remedy="settle it with the protocol that made it",
        )

    def note_product(self, op: Bilinear, x: Parts, y: Parts, z: Parts) -> None:
        if op == MUL:
            self.claims.add_elements(Gates.of(x, y, z))
        else:
            self.claims.add_product(Product(op, x, y, z))

    def note_gates(self, x: Parts, y: Parts, z: Parts) -> None:
        self.claims.add_words(Gates.of(x, y, z))

    def note_opening(self, x: Parts, missing: Tensor) -> None:
        """Part i arrives at party i from party i+1; party i+2, the one before i, holds it too."""
        self.views.add(self._with_previous, [missing])
        self.views.add(self._with_next, [x[self.next]])

    def note_zero(self, x: Parts, lacking: Tensor) -> None:
        """Compares that x is zero. lacking: the part that party i lacks, if so; i+1 holds it."""
        self.views.add(self._with_next, [lacking])
        self.views.add(self._with_previous, [x[self.previous]])

    @abstractmethod
    def gate(self, x: Parts, y: Parts) -> Steps[Parts]:
        """Returns x & y for planes of bits, which is verified later. 1 round."""
