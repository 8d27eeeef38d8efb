"""Which part of a secret each member holds, and how parties open what a mask hides.

x = x_0 + ... + x_{n-1} mod 2^k, or the exclusive or for bits, and party i holds x_i. A dealer holds
zeros of the secret's shape, as a part of its own rank: they change no sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...transport import Spec
from ..base import Protocol
from ..context import Context
from ..share import Arith, Bool
from ..steps import PASS, Round, Steps

if TYPE_CHECKING:
    from .source import Source


class BeaverBase(Protocol):
    """One member's part: what every operation in this folder uses.

    source: of triples and other correlated randomness. ranks: of the parties. is_leader: whether
    this is the last party, which adds public constants. tracks_owners: whether shares say who gave
    them, so that triples can be cheaper.
    """

    source: Source

    def __init__(self, context: Context, *, exact: bool = True) -> None:
        super().__init__(context, exact=exact)
        self.ranks = tuple(range(self.parties))
        self.is_dealer = self.rank not in self.ranks
        self.is_leader = self.rank == self.parties - 1
        self.others = tuple(rank for rank in self.ranks if rank != self.rank)
        self.tracks_owners = False

    def own(self, x: Arith | Bool) -> Tensor:
        """Returns the part that this member holds."""
        return x.parts[self.rank]

    def zeros(self, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
        """Returns ring elements, or words of planes, that are all zero."""
        return torch.zeros(tuple(shape), dtype=dtype or self.ring.dtype, device=self.device)

    def make(self, own: Tensor, limit: int | None = None) -> Arith:
        """Returns the secret of which this member holds `own`."""
        return Arith({self.rank: own}, self.ring, limit=limit)

    # What the local operations of `core.py` ask for ----------------------------------------------

    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        return (self.rank,) if self.is_leader else ()

    def constant(self, value: Tensor, *, limit: int) -> Arith:
        """The value as the leader's part; the other parts are zero."""
        return self.make(value if self.is_leader else torch.zeros_like(value), limit)

    def constant_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        """The planes as the leader's part; the other parts are zero."""
        return Bool({self.rank: planes if self.is_leader else torch.zeros_like(planes)}, shape)


def open_hidden(
    p: BeaverBase, elements: Sequence[Tensor], planes: Sequence[Tensor]
) -> Steps[tuple[list[Tensor], list[Tensor]]]:
    """Returns the sums of all parties' elements, and the exclusive ors of their planes. 1 round.

    The caller has hidden every part by a mask that no other party knows. A dealer learns nothing
    and gets its own tensors back.
    """
    own = [tensor.contiguous() for tensor in (*elements, *planes)]
    if p.is_dealer:
        yield PASS
        return own[: len(elements)], own[len(elements) :]
    specs = [Spec(tuple(tensor.shape), tensor.dtype) for tensor in own]
    received = yield Round(dict.fromkeys(p.others, own), dict.fromkeys(p.others, specs))
    sums = list(own)
    for other in p.others:
        for n, part in enumerate(received[other]):
            sums[n] = sums[n] + part if n < len(elements) else sums[n] ^ part
    return sums[: len(elements)], sums[len(elements) :]
