"""The product of a bit and a ring element (M10), as what is opened, dealt and computed.

`injection` gives a product that inject and relu put together with other steps of theirs: `opened`
and `dealt` are its slots, `correct` is the dealer's part and `online` everybody's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from ...kernels import correct_inject_exact, deal_injection, inject_exact_share, inject_share
from ..checks import check_shift
from ..share import Arith, Bool
from ..steps import Steps
from .arithmetic import opened, opened_share, own_mask, whole_mask
from .boolean import opened_bits
from .deal import Known, Slots, ring_slot

if TYPE_CHECKING:
    from .protocol import Masked


class Injection(ABC):
    """b x for a bit b = m_b ^ y. 1 round, one element each way."""

    def __init__(self, p: Masked, x: Arith) -> None:
        self.p, self.x = p, x.map(Tensor.contiguous)  # a copy: another call may settle x meanwhile
        self.element = ring_slot(p, x.shape)
        self.opened = (self.element,)
        self.limit = (x.limit >> x.pending) + bool(x.pending)

    dealt: Slots

    @abstractmethod
    def correct(self, y: Tensor, pads: Sequence[Tensor]) -> list[Tensor]:
        """At the dealer, out of the mask of the bit: the pads, replaced by what is sent."""

    @abstractmethod
    def message(self, bits: Tensor, mask: Tensor, dealt: Known) -> Tensor:
        """At an evaluator, its share minus its mask."""

    def online(self, bit: Bool, masks: list[Tensor], dealt: Known) -> Steps[Arith]:
        """The product, opened."""
        p, message = self.p, None
        if not p.is_dealer:
            message = self.message(opened_bits(p, bit)[0], masks[0], dealt)
        return (yield from opened_share(p, message, self.element, masks, self.limit))


class Whole(Injection):
    """b x for x with nothing pending; 2 elements dealt."""

    def __init__(self, p: Masked, x: Arith) -> None:
        super().__init__(p, x)
        self.dealt = (self.element, self.element)

    def correct(self, y: Tensor, pads: Sequence[Tensor]) -> list[Tensor]:
        return list(deal_injection(y, whole_mask(self.p, self.x), *pads))

    def message(self, bits: Tensor, mask: Tensor, dealt: Known) -> Tensor:
        p, x, [[flip], [product]] = self.p, self.x, dealt
        shares = opened(p, x), flip, product, own_mask(p, x)
        return inject_share(bits, *shares, first=p.is_leader, minus=mask)


class Quotient(Injection):
    """b * floor(x / 2^t), or one unit more (2.7). With c, w as in NOTE [exact] of truncation.py,
    the quotient is A - D + B w_top, where the evaluators know A and B = +-2^(k-1-t), the dealer
    D and w_top. It deals y, y D, D, and modulo 2^(t+1) w_top and y w_top.
    """

    def __init__(self, p: Masked, x: Arith) -> None:
        check_shift(p.ring, x.pending)
        super().__init__(p, x)
        narrow = ring_slot(p, x.shape, x.pending + 1)
        self.dealt = (self.element, self.element, self.element, narrow, narrow)

    def correct(self, y: Tensor, pads: Sequence[Tensor]) -> list[Tensor]:
        return correct_inject_exact(y, whole_mask(self.p, self.x), self.x.pending, pads)

    def message(self, bits: Tensor, mask: Tensor, dealt: Known) -> Tensor:
        p, t, m = self.p, self.x.pending, opened(self.p, self.x)
        [flip], [flip_low], [low], [top], [flip_top] = dealt
        return inject_exact_share(
            bits, m, flip, flip_low, low, top, flip_top, t,
            first=p.is_leader, packed=p.is_leader, minus=mask,
        )  # fmt: skip


def injection(p: Masked, x: Arith) -> Steps[Injection]:
    """The product of a bit with x; its pending division is made on the way if that is exact."""
    if x.pending and p.exact:
        return Quotient(p.in_roles_of(x), x)
    return Whole(p, (yield from p.settled.steps(x)))
