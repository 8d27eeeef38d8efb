"""The only way in which the sides compute together: both evaluations of a form y = F(c, d).

See NOTE [two evaluations] of this folder for (Q1) to (Q4). What is dealt in (Q1) and sent in (Q4)
depends on masks alone and goes ahead; (Q2) and (Q3) are the one online round. Party 3 never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..masked.deal import ValueSpec, ValueSpecs, layouts, messages
from ..randomness import Stream
from ..share import Parts
from ..steps import PASS, PASS_AHEAD, Round, Steps
from .base import DEALER, QuadBase, holders

A1, A2, M3 = (frozenset(holders(part)) for part in (2, 1, 0))  # who draws a_1, a_2 and m_3
MASK_PADS = Stream(A1, "deal", 3, (2,))  # d_1
VALUE_PADS = Stream(M3, "deal", 2, (0,))  # c_3
NEW_A1, NEW_A2 = Stream(A1, "open", 1, (2,)), Stream(A2, "open", 2, (1,))  # z_1, z_2
NEW_M3 = Stream(M3, "open", 3, (0,))  # m'_3

# Who compares what is dealt by the mask side, by the value side, and the part m'_0 of results.
DEALT_MASKS, DEALT_VALUES, RESULTS = (0, 2), (0, 1), (0, 1, 2)
VALUES_ALIKE = (1, 2)  # parties 1 and 2 add up the same two messages, which they send each other


@dataclass(frozen=True)
class Gate:
    """A form F(c, d), at one party: what its side knows is in the closures.

    out: of the result. masks, values: of what the mask side and the value side deal.
    deal: returns what this party's side deals, minus the pads, which it may overwrite.
    share: returns F of this side's values and its shares of what the other side dealt, minus a
    tensor, in new memory; what the first of a side receives narrow (`ValueSpec.width`) comes as
    planes of bits.
    """

    out: ValueSpec
    masks: ValueSpecs
    values: ValueSpecs
    deal: Callable[[list[Tensor]], list[Tensor]]
    share: Callable[[list[Tensor], Tensor], Tensor]


def evaluate(p: QuadBase, gate: Gate) -> Steps[Parts]:
    """Returns this party's parts of the result. 1 round."""
    return (yield from _PARTIES[p.rank](p, gate))


def _party0(p: QuadBase, gate: Gate) -> Steps[Parts]:
    pads, [a1], [a2] = _draw(
        p, (MASK_PADS, gate.masks), (NEW_A1, (gate.out,)), (NEW_A2, (gate.out,))
    )
    dealt = _packed(gate.masks, gate.deal(pads))
    [other] = (yield Round(receive={DEALER: messages((gate.out,))}, ahead=True))[DEALER]
    p.views.add(DEALT_MASKS, dealt)
    values = (yield Round(receive={2: messages(gate.values)} if gate.values else {})).get(2, [])
    p.views.add(DEALT_VALUES, values)
    m0 = _add(gate.out, gate.share(values, _sum(gate.out, a1, a2)), other)  # (Q4)
    p.views.add(RESULTS, [m0], alike=VALUES_ALIKE)
    return {1: a2, 2: a1, 3: m0}


def _party1(p: QuadBase, gate: Gate) -> Steps[Parts]:
    pads, masks, [a1], [m3] = _draw(
        p,
        (VALUE_PADS, gate.values),
        (MASK_PADS, gate.masks),
        (NEW_A1, (gate.out,)),
        (NEW_M3, (gate.out,)),
    )
    values = _packed(gate.values, gate.deal(pads))
    message = gate.share(masks, a1)
    yield PASS_AHEAD
    received = yield Round({2: [message]}, {2: messages((gate.out,))})
    p.views.add(DEALT_VALUES, values)
    return {2: a1} | _opened(p, gate, m3, message, received[2][0])


def _party2(p: QuadBase, gate: Gate) -> Steps[Parts]:
    receive = {DEALER: messages(gate.masks)} if gate.masks else {}
    dealt = (yield Round(receive=receive, ahead=True)).get(DEALER, [])
    p.views.add(DEALT_MASKS, dealt)
    pads, [a2], [m3] = _draw(
        p, (VALUE_PADS, gate.values), (NEW_A2, (gate.out,)), (NEW_M3, (gate.out,))
    )
    values = _packed(gate.values, gate.deal(pads))
    message = gate.share(dealt, a2)
    send = {1: [message]} | ({0: values} if gate.values else {})
    received = yield Round(send, {1: messages((gate.out,))})
    return {1: a2} | _opened(p, gate, m3, message, received[1][0])


def _party3(p: QuadBase, gate: Gate) -> Steps[Parts]:
    pads, values, [a1], [a2], [m3] = _draw(
        p,
        (MASK_PADS, gate.masks),
        (VALUE_PADS, gate.values),
        (NEW_A1, (gate.out,)),
        (NEW_A2, (gate.out,)),
        (NEW_M3, (gate.out,)),
    )
    dealt = _packed(gate.masks, gate.deal(pads))
    message = gate.share(values, m3)
    send = {0: [message]} | ({2: dealt} if gate.masks else {})
    yield Round(send, ahead=True)
    yield PASS
    return {1: a2, 2: a1, 0: m3}


_PARTIES = (_party0, _party1, _party2, _party3)


def _opened(p: QuadBase, gate: Gate, m3: Tensor, own: Tensor, received: Tensor) -> Parts:
    """The value side's parts of m' (Q3), which both of its messages add up to."""
    m0 = _sum(gate.out, own, received)
    m0 = m0.bitwise_xor_(m3) if gate.out.bits else m0.sub_(m3)
    p.views.add(RESULTS, [m0], alike=VALUES_ALIKE)
    return {0: m3, 3: m0}


def deal_mask(p: QuadBase, mask: Tensor | None, spec: ValueSpec) -> Steps[Parts]:
    """Returns this party's parts of a mask that the mask side knows (Q1). 0 rounds, sent ahead."""
    if p.rank == 2:
        [share] = (yield Round(receive={DEALER: messages((spec,))}, ahead=True))[DEALER]
        p.views.add(DEALT_MASKS, [share])
        return {1: share}
    [[pad]] = _draw(p, (MASK_PADS, (spec,)))
    if p.rank == 1:
        yield PASS_AHEAD
        return {2: pad}
    assert mask is not None
    share = mask - pad
    yield Round({2: [share]} if p.rank == DEALER else {}, ahead=True)
    if p.rank == 0:
        p.views.add(DEALT_MASKS, [share])
    return {1: share, 2: pad}


def deal_value(p: QuadBase, value: Tensor | None, spec: ValueSpec) -> Steps[Parts]:
    """Returns this party's parts of a term m that the value side knows (Q2). 1 round."""
    if p.rank == 0:
        [share] = (yield Round(receive={2: messages((spec,))}))[2]
        p.views.add(DEALT_VALUES, [share])
        return {3: share}
    [[pad]] = _draw(p, (VALUE_PADS, (spec,)))
    if p.rank == 3:
        yield PASS
        return {0: pad}
    assert value is not None
    share = value - pad
    yield Round({0: [share]} if p.rank == 2 else {})
    if p.rank == 1:
        p.views.add(DEALT_VALUES, [share])
    return {3: share, 0: pad}


def _draw(p: QuadBase, *wanted: tuple[Stream, ValueSpecs]) -> list[list[Tensor]]:
    """Draws the values of these specs, in which a stream may have none, from each stream."""
    sources, specs = zip(*[one for one in wanted if one[1]], strict=True)
    drawn = iter(p.context.randomness.draws_of(sources, [layouts(of) for of in specs]))
    return [next(drawn) if of else [] for _, of in wanted]


def _packed(specs: ValueSpecs, values: Sequence[Tensor]) -> list[Tensor]:
    return [spec.packed(value) for spec, value in zip(specs, values, strict=True)]


def _sum(spec: ValueSpec, x: Tensor, y: Tensor) -> Tensor:
    return torch.bitwise_xor(x, y) if spec.bits else x + y


def _add(spec: ValueSpec, x: Tensor, y: Tensor) -> Tensor:
    """Adds y to x, which nobody else uses."""
    return x.bitwise_xor_(y) if spec.bits else x.add_(y)
