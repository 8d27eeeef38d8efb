"""The only two ways in which masked evaluation sends anything: the dealer deals, evaluators open.

Deal (M1): the dealer knows v. All evaluators but the last draw their share of v from the key that
they have with the dealer; the last receives v minus those, ahead of time. Sent: |v|, 0 rounds.
Open (M2, M3): evaluator i holds s_i and draws z_i from its key with the dealer. All send s_i - z_i
to each other and know m = sum of s_i - z_i; the dealer knows z = sum of z_i. Sent: |s| each way,
1 round. A receiver never has the key of the mask on what it receives.

NOTE [halves]: of long messages each of two evaluators receives one half, and draws the other: a
link carries half as much, and both decrypt at the same time. Values are taken in the order of the
size of their elements, the widest first. The first evaluator receives the first half of all bits,
in whole words. What is sent as a few bits of each element goes to the last evaluator, the leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ...kernels import bit_planes
from ...ring import num_words
from ...transport import Sendable, Spec, Tiled
from ..core import ProtocolCore
from ..randomness import Layout, Stream
from ..steps import PASS, PASS_AHEAD, Round, Steps
from .base import MaskedBase, Roles

HALVED_BITS = 1 << 23  # of dealt values, from which on they are halved
WORD_BITS = 64


class ValueSpec(NamedTuple):
    """Shape and dtype of a value that is dealt or opened: ring elements, or planes of bits.

    width: if not 0, only that many low bits of the ring elements matter. Only they are sent, as
    planes, and the receiver gets the planes.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    bits: bool = False
    width: int = 0

    def packed(self, value: Tensor) -> Tensor:
        """Returns the value as it is sent."""
        return bit_planes(value, self.width) if self.width else value

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def num_bits(self) -> int:
        """How many bits are sent."""
        if self.width:
            return 64 * self.width * num_words(self.numel)
        return 8 * self.dtype.itemsize * self.numel

    def part(self, size: int) -> ValueSpec:
        """Returns the spec of so many elements in a row."""
        return ValueSpec((size,), self.dtype, self.bits)


ValueSpecs = tuple[ValueSpec, ...]


def ring_spec(p: ProtocolCore, shape: Sequence[int], width: int = 0) -> ValueSpec:
    """Returns the spec of ring elements, or of their `width` low bits."""
    return ValueSpec(tuple(shape), p.ring.dtype, False, width)


def plane_spec(rows: int, words: int) -> ValueSpec:
    """Returns the spec of planes of bits."""
    return ValueSpec((rows, words), torch.int64, True)


@lru_cache(maxsize=1024)
def layouts(specs: ValueSpecs) -> tuple[Layout, ...]:
    return tuple((spec.shape, spec.dtype) for spec in specs)


@lru_cache(maxsize=1024)
def messages(specs: ValueSpecs) -> list[Spec]:
    """What the receiver of these values expects on the wire."""
    packed = [(spec.width, num_words(prod(spec.shape))) for spec in specs]
    return [
        Spec(shape, torch.int64) if spec.width else Spec(spec.shape, spec.dtype)
        for spec, shape in zip(specs, packed, strict=True)
    ]


def total(spec: ValueSpec, values: Sequence[Tensor]) -> Tensor:
    """Returns the sum of ring elements, or the exclusive or of planes."""
    if len(values) == 1:
        return values[0]
    return reduce(torch.bitwise_xor if spec.bits else torch.add, values)


# Which part of a dealt value each evaluator receives, and which it draws --------------------------


def first_half(bits: int, narrow: int = 0) -> int:
    """Returns how many dealt bits the first of two evaluators receives; `narrow` are not its."""
    if bits < HALVED_BITS:
        return 0
    return min(bits - narrow, bits // 2) // WORD_BITS * WORD_BITS


def is_long(dealt: ValueSpecs) -> bool:
    """Whether these values, dealt together, are halved between two evaluators."""
    return sum(spec.num_bits for spec in dealt) >= HALVED_BITS


class Portion(NamedTuple):
    """How an evaluator gets its share of a value: it receives some elements and draws the others.

    received, drawn: their specs; None if there are none. begins: whether those that are received
    are the first ones.
    """

    whole: ValueSpec
    received: ValueSpec | None
    drawn: ValueSpec | None
    begins: bool

    def sent(self, value: Tensor) -> Tensor | None:
        """Returns, at the dealer, what is sent of the value, if anything is."""
        if self.received is None or self.drawn is None:
            return None if self.received is None else self.whole.packed(value)
        flat, count = value.reshape(-1), self.received.numel
        return flat[:count] if self.begins else flat[-count:]

    def share(self, received: Tensor | None, drawn: Tensor | None) -> Tensor:
        """Returns the share, from what was received and drawn."""
        parts = [received, drawn] if self.begins else [drawn, received]
        found = [part for part in parts if part is not None]
        return found[0] if len(found) == 1 else torch.cat(found).view(self.whole.shape)


def pad_of(column: Sequence[tuple[Portion, Tensor | None]]) -> Tensor:
    """Returns, at the dealer, the sum of what the evaluators draw of a value.

    column: by evaluator. Of a value in halves the last one draws the first half.
    """
    drawn = [(one, part) for one, part in column if part is not None]
    whole, parts = drawn[0][0].whole, [part for _, part in drawn]
    if any(one.received is not None for one, _ in drawn):
        return torch.cat(parts[::-1]).view(whole.shape)
    return total(whole, parts)


@lru_cache(maxsize=1024)
def portions(roles: Roles, dealt: ValueSpecs) -> dict[int, list[Portion]]:
    """Returns how each evaluator gets its share of each value."""
    counts = _first_counts(dealt) if roles.deals_halves else [0] * len(dealt)
    found = {e: [_drawn(spec) for spec in dealt] for e in roles.evaluators}
    for i, (spec, count) in enumerate(zip(dealt, counts, strict=True)):
        if count == 0:
            found[roles.leader][i] = _received(spec)
        elif count == spec.numel:
            found[roles.evaluators[0]][i] = _received(spec)
        else:
            begin, end = spec.part(count), spec.part(spec.numel - count)
            found[roles.evaluators[0]][i] = Portion(spec, begin, end, begins=True)
            found[roles.leader][i] = Portion(spec, end, begin, begins=False)
    return found


def _received(spec: ValueSpec) -> Portion:
    return Portion(spec, spec, None, begins=True)


def _drawn(spec: ValueSpec) -> Portion:
    return Portion(spec, None, spec, begins=False)


def _first_counts(dealt: Sequence[ValueSpec]) -> list[int]:
    """How many elements of each value the first of two evaluators receives."""
    narrow = sum(spec.num_bits for spec in dealt if spec.width)
    left = first_half(sum(spec.num_bits for spec in dealt), narrow)
    counts = [0] * len(dealt)
    for i in sorted(range(len(dealt)), key=lambda i: -dealt[i].dtype.itemsize):
        if not dealt[i].width:
            taken = min(left, dealt[i].num_bits)
            counts[i], left = taken // (8 * dealt[i].dtype.itemsize), left - taken
    return counts


# Dealing and opening ------------------------------------------------------------------------------

# For each value, the shares that this party knows: an evaluator its own, the dealer all of them.
KnownShares = list[list[Tensor]]
# At the dealer: value minus pad for each value (value ^ pad for bits), from the masks of what is
# opened later and the pads. It may overwrite the pads.
Corrections = Callable[[KnownShares, list[Tensor]], list[Tensor]]


def deal(
    p: MaskedBase, specs: Sequence[ValueSpec], corrections: Callable[[list[Tensor]], list[Tensor]]
) -> Steps[KnownShares]:
    """Deals values that the dealer knows (M1). 0 rounds; sends them to evaluators, ahead.

    `corrections`, called at the dealer only, returns value minus pad for each pad. It may overwrite
    the pads. Returns the shares that this party knows, but nothing of use at the dealer.
    """
    _, dealt = yield from deal_with_masks(p, (), tuple(specs), lambda _, pads: corrections(pads))
    return dealt


def deal_with_masks(
    p: MaskedBase, opened: ValueSpecs, dealt: ValueSpecs, corrections: Corrections
) -> Steps[tuple[KnownShares, KnownShares]]:
    """Draws the masks z of what is opened later, and deals (M1), with one draw from each stream.

    Returns the masks and the dealt shares that this party knows; of the latter, the dealer gets
    tensors of their shapes alone. 0 rounds; sends `dealt` from the dealer to evaluators, ahead.
    """
    if p.is_dealer:
        masks = _columns(p, p.roles.opening, opened)
        values, _ = yield from _deal(p, dealt, lambda pads: corrections(masks, pads))
        return masks, [[value] for value in values]
    own = _draw(p, p.roles.opening[p.rank], opened)
    shares = yield from _receive(p, dealt)
    return [[z] for z in own], [[share] for share in shares]


def deal_sharing(p: MaskedBase, value: Tensor | None, shape: Sequence[int]) -> Steps[list[Tensor]]:
    """Returns the shares that this party knows of a fresh sharing of ring elements (M1)."""
    specs = (ring_spec(p, shape),)
    if not p.is_dealer:
        return (yield from _receive(p, specs))
    assert value is not None
    [sent], drawn = yield from _deal(p, specs, lambda pads: [value - pads[0]])
    shares = portions(p.roles, specs)
    return [one.share(one.sent(sent), drawn[e][0]) for e, [one] in shares.items()]


def _receive(p: MaskedBase, dealt: ValueSpecs) -> Steps[list[Tensor]]:
    """Returns an evaluator's shares of what is dealt: some are drawn, and some are received."""
    dealer, mine = p.roles.dealer, portions(p.roles, dealt)[p.rank]
    drawn = _draw_portions(p, p.rank, mine)
    specs = tuple(one.received for one in mine if one.received is not None)
    if specs:
        received = iter((yield Round(receive={dealer: messages(specs)}, ahead=True))[dealer])
    else:
        yield PASS_AHEAD
    return [
        one.share(None if one.received is None else next(received), part)
        for one, part in zip(mine, drawn, strict=True)
    ]


def _deal(
    p: MaskedBase, dealt: ValueSpecs, corrections: Callable[[list[Tensor]], list[Tensor]]
) -> Steps[tuple[list[Tensor], dict[int, list[Tensor | None]]]]:
    """At the dealer: sends the corrections. Returns them, and what each evaluator draws."""
    of = portions(p.roles, dealt)
    drawn = {e: _draw_portions(p, e, of[e]) for e in of}
    columns = zip(*(zip(of[e], drawn[e], strict=True) for e in of), strict=True)
    values = corrections([pad_of(column) for column in columns])
    send: dict[int, list[Tensor]] = {}
    for e, found in of.items():
        parts = [one.sent(value) for one, value in zip(found, values, strict=True)]
        if any(part is not None for part in parts):
            send[e] = [part for part in parts if part is not None]
    yield Round(send=send, ahead=True)
    return values, drawn


def _draw_portions(p: MaskedBase, rank: int, portions: Sequence[Portion]) -> list[Tensor | None]:
    """Returns what an evaluator draws of each value; None of those that it receives."""
    specs = tuple(one.drawn for one in portions if one.drawn is not None)
    drawn = iter(_draw(p, p.roles.dealing[rank], specs) if specs else ())
    return [None if one.drawn is None else next(drawn) for one in portions]


def _draw(p: MaskedBase, source: Stream, specs: ValueSpecs) -> list[Tensor]:
    return p.context.randomness.draws(source, layouts(specs)) if specs else []


def _columns(p: MaskedBase, sources: Mapping[int, Stream], specs: ValueSpecs) -> KnownShares:
    """At the dealer: for each value, the words of every stream."""
    drawn = [_draw(p, source, specs) for source in sources.values()]
    return [list(column) for column in zip(*drawn, strict=True)]


def draw_masks(p: MaskedBase, specs: Sequence[ValueSpec]) -> KnownShares:
    """Returns this evaluator's mask z_i of each value that is opened later; at the dealer, all."""
    specs = tuple(specs)
    if not p.is_dealer:
        return [[z] for z in _draw(p, p.roles.opening[p.rank], specs)]
    return _columns(p, p.roles.opening, specs)


def open_value(p: MaskedBase, message: Sendable | None, spec: ValueSpec) -> Steps[Tensor | None]:
    """Returns m, the sum of the evaluators' masked shares; None at the dealer. 1 round.

    `message`: s_i - z_i at evaluator i, sent to all other evaluators; None at the dealer.
    """
    if message is None:
        yield PASS
        return None
    own, theirs = yield from exchange(p, message, spec)
    return own ^ theirs if spec.bits else own + theirs


def exchange(p: MaskedBase, message: Sendable, spec: ValueSpec) -> Steps[tuple[Tensor, Tensor]]:
    """Returns, at an evaluator, its own message and the sum of the others'. 1 round.

    The sum of both is the opened value; kernels that take it in two halves save an addition.
    """
    send, receive, specs = {}, {}, messages((spec,))
    for other in p.others:
        send[other], receive[other] = [message], specs
    received = yield Round(send, receive)
    own = message.whole if isinstance(message, Tiled) else message
    return own, total(spec, [received[other][0] for other in p.others])
