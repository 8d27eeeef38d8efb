"""The two ways in which masked evaluation talks: the dealer deals, the evaluators open.

Deal (M1): the dealer knows v. All evaluators but the last draw their share of v from the key they
have with the dealer; the last receives v minus those, ahead of time. Sent: |v|, 0 rounds.
Open (M2, M3): evaluator i holds s_i and draws z_i from its key with the dealer; all send s_i - z_i
to each other and know m = sum of s_i - z_i. The dealer knows z = sum of z_i. Sent: |s| each way,
1 round. A receiver never has the key of the mask on what it receives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ...kernels import bit_planes, from_bit_planes
from ...ring.reference.bits import num_words
from ...transport import Spec
from ..steps import Round, Steps

if TYPE_CHECKING:
    from .protocol import Masked


class Slot(NamedTuple):
    """The form of a dealt or opened value: ring elements, or planes of bits.

    width: if not 0, only the low bits of the ring elements matter, and only they are sent.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    bits: bool = False
    width: int = 0

    @property
    def spec(self) -> Spec:
        if self.width:
            return Spec((self.width, num_words(prod(self.shape))), torch.int64)
        return Spec(self.shape, self.dtype)

    def pack(self, value: Tensor) -> Tensor:
        return bit_planes(value, self.width) if self.width else value

    def unpack(self, sent: Tensor) -> Tensor:
        return from_bit_planes(sent, self.shape, self.dtype) if self.width else sent


def ring_slot(p: Masked, shape: Sequence[int], width: int = 0) -> Slot:
    return Slot(tuple(shape), p.ring.dtype, width=width)


def plane_slot(rows: int, words: int) -> Slot:
    return Slot((rows, words), torch.int64, bits=True)


Correct = Callable[[list[Tensor]], list[Tensor]]


def deal(p: Masked, slots: Sequence[Slot], correct: Correct) -> Steps[list[list[Tensor]]]:
    """For each slot, the shares of the dealt value that this party knows; the dealer knows all.

    `correct`, called at the dealer only, gives value minus pad for each slot (value ^ pad for
    bits). It may overwrite the pads; then the dealer's shares of that slot mean nothing.
    """
    roles = p.roles
    *drawing, last = roles.evaluators
    if p.rank == last:
        received = yield Round(receive={roles.dealer: [s.spec for s in slots]}, ahead=True)
        dealt = received[roles.dealer]
        return [[slot.unpack(value)] for slot, value in zip(slots, dealt, strict=True)]
    if not p.is_dealer:
        shares = [[words] for words in _draw(p, p.rank, slots)]
        yield Round(ahead=True)
        return shares
    drawn = [_draw(p, e, slots) for e in drawing]
    columns = list(zip(*drawn, strict=True))
    values = correct([_total(slot, column) for slot, column in zip(slots, columns, strict=True)])
    sent = [slot.pack(value) for slot, value in zip(slots, values, strict=True)]
    yield Round(send={last: sent}, ahead=True)
    return [[*column, value] for column, value in zip(columns, values, strict=True)]


def deal_parts(p: Masked, value: Tensor | None, shape: Sequence[int]) -> Steps[list[Tensor]]:
    """A new sharing of ring elements that the dealer knows: the shares that this party knows."""

    def correct(pads: list[Tensor]) -> list[Tensor]:
        assert value is not None
        return [value - pads[0]]

    [shares] = yield from deal(p, [ring_slot(p, shape)], correct)
    return shares


def _draw(p: Masked, evaluator: int, slots: Sequence[Slot]) -> list[Tensor]:
    forms = [(slot.shape, slot.dtype) for slot in slots]
    return p.context.tape.draws((p.roles.dealer, evaluator), forms)


def _total(slot: Slot, values: Sequence[Tensor]) -> Tensor:
    return reduce(torch.bitwise_xor if slot.bits else torch.add, values)


def draw_masks(p: Masked, slots: Sequence[Slot]) -> list[list[Tensor]]:
    """This evaluator's z_i for each of what is opened later; at the dealer, all of them."""
    mine = p.roles.evaluators if p.is_dealer else (p.rank,)
    return [list(masks) for masks in zip(*(_draw(p, e, slots) for e in mine), strict=True)]


def open_(p: Masked, message: Tensor | None, slot: Slot) -> Steps[Tensor | None]:
    """What the evaluators' masked shares add up to; the dealer passes and gets None."""
    if message is None:
        yield Round()
        return None
    others = [e for e in p.roles.evaluators if e != p.rank]
    received = yield Round(
        send={e: [message] for e in others}, receive={e: [slot.spec] for e in others}
    )
    return _total(slot, [message, *(received[e][0] for e in others)])
