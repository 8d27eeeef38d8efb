"""The two ways in which masked evaluation talks: the dealer deals, the evaluators open.

Deal (M1): the dealer knows v. All evaluators but the last draw their share of v from the key they
have with the dealer; the last receives v minus those, ahead of time. Sent: |v|, 0 rounds.
Open (M2, M3): evaluator i holds s_i and draws z_i from its key with the dealer; all send s_i - z_i
to each other and know m = sum of s_i - z_i. The dealer knows z = sum of z_i. Sent: |s| each way,
1 round. A receiver never has the key of the mask on what it receives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ...kernels import bit_planes
from ...ring.reference.bits import num_words
from ...transport import Spec
from ..randomness import Form
from ..steps import PASS, PASS_AHEAD, Round, Steps

if TYPE_CHECKING:
    from .protocol import Masked


class Slot(NamedTuple):
    """The form of a dealt or opened value: ring elements, or planes of bits.

    width: if not 0, only the low bits of the ring elements matter, and only they are sent, as
    planes, which the receiver gets as they are.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    bits: bool = False
    width: int = 0

    def pack(self, value: Tensor) -> Tensor:
        return bit_planes(value, self.width) if self.width else value


Slots = tuple[Slot, ...]
Known = list[list[Tensor]]  # for each slot, what this party knows: one evaluator's, or all of them


def ring_slot(p: Masked, shape: Sequence[int], width: int = 0) -> Slot:
    return Slot(tuple(shape), p.ring.dtype, False, width)


def plane_slot(rows: int, words: int) -> Slot:
    return Slot((rows, words), torch.int64, True)


@lru_cache(maxsize=1024)
def _forms(slots: Slots) -> tuple[Form, ...]:
    return tuple((slot.shape, slot.dtype) for slot in slots)


@lru_cache(maxsize=1024)
def _specs(slots: Slots) -> list[Spec]:
    """What the receiver of these slots expects."""
    packed = [(slot.width, num_words(prod(slot.shape))) for slot in slots]
    return [
        Spec(shape, torch.int64) if slot.width else Spec(slot.shape, slot.dtype)
        for slot, shape in zip(slots, packed, strict=True)
    ]


Correct = Callable[[list[Tensor]], list[Tensor]]
CorrectWith = Callable[[Known, list[Tensor]], list[Tensor]]


def deal(p: Masked, slots: Sequence[Slot], correct: Correct) -> Steps[Known]:
    """For each slot, the shares of the dealt value that this party knows; the dealer knows all.

    `correct`, called at the dealer only, gives value minus pad for each slot (value ^ pad for
    bits). It may overwrite the pads; then the dealer's shares of that slot mean nothing.
    """
    _, dealt = yield from deal_with_masks(p, (), tuple(slots), lambda _, pads: correct(pads))
    return dealt


def deal_with_masks(
    p: Masked, opened: Slots, slots: Slots, correct: CorrectWith
) -> Steps[tuple[Known, Known]]:
    """Masks for what is opened later (`draw_masks`), and what is dealt: one draw from each key."""
    roles, count = p.roles, len(opened)
    if p.is_leader:
        own = _draw(p, p.rank, opened)
        received = yield Round(receive={roles.dealer: _specs(slots)}, ahead=True)
        return [[z] for z in own], [[value] for value in received[roles.dealer]]
    if not p.is_dealer:
        drawn = [[words] for words in _draw(p, p.rank, opened + slots)]
        yield PASS_AHEAD
        return drawn[:count], drawn[count:]
    *drawing, last = roles.evaluators
    columns = list(zip(*[_draw(p, e, opened + slots) for e in drawing], strict=True))
    ends = zip(columns, _draw(p, last, opened), strict=False)
    masks, pads = [[*column, z] for column, z in ends], columns[count:]
    totals = [_total(slot, column) for slot, column in zip(slots, pads, strict=True)]
    values = correct(masks, totals)
    sent = [slot.pack(value) for slot, value in zip(slots, values, strict=True)]
    yield Round(send={last: sent}, ahead=True)
    return masks, [[*column, value] for column, value in zip(pads, values, strict=True)]


def deal_parts(p: Masked, value: Tensor | None, shape: Sequence[int]) -> Steps[list[Tensor]]:
    """A new sharing of ring elements that the dealer knows: the shares that this party knows."""

    def correct(pads: list[Tensor]) -> list[Tensor]:
        assert value is not None
        return [value - pads[0]]

    [shares] = yield from deal(p, [ring_slot(p, shape)], correct)
    return shares


def _draw(p: Masked, evaluator: int, slots: Slots) -> list[Tensor]:
    if not slots:
        return []
    return p.context.tape.draws((p.roles.dealer, evaluator), _forms(slots))


def _total(slot: Slot, values: Sequence[Tensor]) -> Tensor:
    if len(values) == 1:
        return values[0]
    return reduce(torch.bitwise_xor if slot.bits else torch.add, values)


def draw_masks(p: Masked, slots: Sequence[Slot]) -> Known:
    """This evaluator's z_i for each of what is opened later; at the dealer, all of them."""
    slots = tuple(slots)
    if not p.is_dealer:
        return [[z] for z in _draw(p, p.rank, slots)]
    drawn = [_draw(p, e, slots) for e in p.roles.evaluators]
    return [list(masks) for masks in zip(*drawn, strict=True)]


def open_(p: Masked, message: Tensor | None, slot: Slot) -> Steps[Tensor | None]:
    """What the evaluators' masked shares add up to; the dealer passes and gets None."""
    if message is None:
        yield PASS
        return None
    own, theirs = yield from halves(p, message, slot)
    return own ^ theirs if slot.bits else own + theirs


def halves(p: Masked, message: Tensor, slot: Slot) -> Steps[tuple[Tensor, Tensor]]:
    """At an evaluator: its message, and what the others' add up to. Their sum is what is opened."""
    send, receive, specs = {}, {}, _specs((slot,))
    for other in p.others:
        send[other], receive[other] = [message], specs
    received = yield Round(send, receive)
    return message, _total(slot, [received[other][0] for other in p.others])
