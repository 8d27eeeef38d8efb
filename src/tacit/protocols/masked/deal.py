"""The only two ways in which masked evaluation sends anything: the dealer deals, evaluators open.

Deal (M1): the dealer knows v. All evaluators but the last draw their share of v from the key that
they have with the dealer; the last receives v minus those, ahead of time. Sent: |v|, 0 rounds. Of a
long v, each of two evaluators receives one half and draws the other (halves.py).
Open (M2, M3): evaluator i holds s_i and draws z_i from its key with the dealer. All send s_i - z_i
to each other and know m = sum of s_i - z_i; the dealer knows z = sum of z_i. Sent: |s| each way,
1 round. A receiver never has the key of the mask on what it receives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from ...transport import Sendable, Tiled
from ..randomness import Stream
from ..steps import PASS, PASS_AHEAD, Round, Steps
from .base import MaskedBase
from .halves import Portion, pad_of, portions
from .values import ValueSpec, ValueSpecs, layouts, messages, ring_spec, total

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
