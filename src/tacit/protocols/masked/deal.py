"""The only two ways in which masked evaluation sends anything: the dealer deals, evaluators open.

Deal (M1): the dealer knows v. All evaluators but the last draw their share of v from the key that
they have with the dealer; the last receives v minus those, ahead of time. Sent: |v|, 0 rounds.
Open (M2, M3): evaluator i holds s_i and draws z_i from its key with the dealer. All send s_i - z_i
to each other and know m = sum of s_i - z_i; the dealer knows z = sum of z_i. Sent: |s| each way,
1 round. A receiver never has the key of the mask on what it receives.
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
from .base import MaskedBase


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


ValueSpecs = tuple[ValueSpec, ...]
# For each value, the shares that this party knows: an evaluator its own, the dealer all of them.
KnownShares = list[list[Tensor]]
# At the dealer: value minus pad for each value (value ^ pad for bits), from the masks of what is
# opened later and the pads. It may overwrite the pads.
Corrections = Callable[[KnownShares, list[Tensor]], list[Tensor]]


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


def deal(
    p: MaskedBase, specs: Sequence[ValueSpec], corrections: Callable[[list[Tensor]], list[Tensor]]
) -> Steps[KnownShares]:
    """Deals values that the dealer knows (M1). 0 rounds; sends them from dealer to leader, ahead.

    `corrections`, called at the dealer only, returns value minus pad for each pad. If it overwrites
    a pad, the dealer's shares of that value are meaningless.
    """
    _, dealt = yield from deal_with_masks(p, (), tuple(specs), lambda _, pads: corrections(pads))
    return dealt


def deal_with_masks(
    p: MaskedBase, opened: ValueSpecs, dealt: ValueSpecs, corrections: Corrections
) -> Steps[tuple[KnownShares, KnownShares]]:
    """Draws the masks z of what is opened later, and deals (M1), with one draw from each stream.

    Returns the masks and the dealt shares that this party knows. 0 rounds; sends `dealt` from the
    dealer to the leader, ahead.
    """
    roles = p.roles
    if p.is_leader:  # draws its masks, receives value minus pads
        own = _draw(p, roles.opening[p.rank], opened)
        received = yield Round(receive={roles.dealer: messages(dealt)}, ahead=True)
        return [[z] for z in own], [[value] for value in received[roles.dealer]]
    if not p.is_dealer:  # the other evaluators draw masks and pads
        own, drawn = _draw(p, roles.opening[p.rank], opened), _draw(p, roles.dealing[p.rank], dealt)
        yield PASS_AHEAD
        return [[z] for z in own], [[pad] for pad in drawn]
    masks = _columns(p, roles.opening, opened)
    pads = _columns(p, roles.dealing, dealt)
    totals = [_total(spec, column) for spec, column in zip(dealt, pads, strict=True)]
    values = corrections(masks, totals)
    sent = [spec.packed(value) for spec, value in zip(dealt, values, strict=True)]
    yield Round(send={roles.leader: sent}, ahead=True)
    return masks, [[*column, value] for column, value in zip(pads, values, strict=True)]


def deal_sharing(p: MaskedBase, value: Tensor | None, shape: Sequence[int]) -> Steps[list[Tensor]]:
    """Returns the shares that this party knows of a fresh sharing of ring elements (M1)."""

    def corrections(pads: list[Tensor]) -> list[Tensor]:
        assert value is not None
        return [value - pads[0]]

    [shares] = yield from deal(p, [ring_spec(p, shape)], corrections)
    return shares


def _draw(p: MaskedBase, source: Stream, specs: ValueSpecs) -> list[Tensor]:
    return p.context.randomness.draws(source, layouts(specs)) if specs else []


def _columns(p: MaskedBase, sources: Mapping[int, Stream], specs: ValueSpecs) -> KnownShares:
    """At the dealer: for each value, the words of every stream."""
    drawn = [_draw(p, source, specs) for source in sources.values()]
    return [list(column) for column in zip(*drawn, strict=True)]


def _total(spec: ValueSpec, values: Sequence[Tensor]) -> Tensor:
    if len(values) == 1:
        return values[0]
    return reduce(torch.bitwise_xor if spec.bits else torch.add, values)


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
    return own, _total(spec, [received[other][0] for other in p.others])
