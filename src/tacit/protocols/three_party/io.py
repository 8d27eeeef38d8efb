"""Input and output: secrets into three parts and back.

x = x_0 + x_1 + x_2; party j holds all parts but x_j (for bits, with exclusive or). `trio` and
`replicated` use these shares, in any assignment of roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ...ring import num_words
from ...transport import Spec
from ..blind import unopened
from ..input_checks import check_party, checked_elements, checked_planes, plain_bits
from ..randomness import Stream, common_stream, mask_stream
from ..share import Arith, Bool, Parts
from ..steps import Round, Steps

if TYPE_CHECKING:
    from .protocol import ThreeParty

PARTIES = (0, 1, 2)


class InputRoles(NamedTuple):
    """helper: draws one part of an input with its owner; receiver: is sent the other part.

    ahead: the input is sent ahead, because its owner never waits for an online message.
    masked: the owner sends the input to both, under a mask that all three parts of it share: for a
    dealer that has dealt before it had inputs.
    """

    helper: int
    receiver: int
    ahead: bool = False
    masked: bool = False


def holders(part: int) -> tuple[int, ...]:
    """Returns the two parties that hold a part, and the key that it is drawn from."""
    return tuple(party for party in PARTIES if party != part)


def share(
    p: ThreeParty,
    value: Tensor | None,
    owner: int,
    shape: Sequence[int] | None = None,
    *,
    limit: int | None = None,
) -> Steps[Arith]:
    """Returns a secret that `owner` gives as ring elements; the others give its shape.

    Sends 1 element, in 1 round, or ahead if the owner deals.
    """
    value, spec = checked_elements(p, value, owner, shape)
    parts = yield from share_parts(p, value, owner, spec)
    return Arith(parts, p.ring, limit=limit)


def share_bits(
    p: ThreeParty, planes: Tensor | None, owner: int, shape: Sequence[int], width: int = 1
) -> Steps[Bool]:
    """Returns secret bits that `owner` gives as planes of shape (width, words). As `share`."""
    planes, spec = checked_planes(p, planes, owner, shape, width)
    parts = yield from share_parts(p, planes, owner, spec, bits=True)
    return Bool(parts, shape)


def share_parts(
    p: ThreeParty,
    value: Tensor | None,
    owner: int,
    spec: Spec,
    *,
    bits: bool = False,
    ahead: bool | None = None,
) -> Steps[Parts]:
    """Returns this party's parts of a value. 1 round; sends 1 element from the owner.

    The owner draws one part with the helper and sends the other, value minus that, to the receiver.
    It is masked by a key that the receiver does not have. The part that the owner lacks is zero.
    """
    helper, receiver, sends_ahead, masked = p.input_roles[owner]
    if masked:
        return (yield from _share_masked(p, value, owner, spec, bits=bits))
    sent_ahead = sends_ahead if ahead is None else ahead
    zero = torch.zeros(spec.shape, dtype=spec.dtype, device=p.device)
    if p.rank == receiver:
        received = yield Round(receive={owner: [spec]}, ahead=sent_ahead)
        return {helper: received[owner][0], owner: zero}
    hidden = mask_stream("input", owner, helper, receiver)
    drawn = p.context.randomness.draw(hidden, spec.shape, spec.dtype)
    if p.rank == helper:
        yield Round(ahead=sent_ahead)
        return {receiver: drawn, owner: zero}
    assert value is not None
    rest = value ^ drawn if bits else value - drawn
    yield Round(send={receiver: [rest]}, ahead=sent_ahead)
    return {receiver: drawn, helper: rest}


def _share_masked(
    p: ThreeParty, value: Tensor | None, owner: int, spec: Spec, *, bits: bool
) -> Steps[Parts]:
    """Returns this party's parts of a dealer's input, whose masks do not depend on it. 1 round.

    The owner draws a mask with each of the others and sends value minus both to both: 2 elements.
    """
    first, second = holders(owner)
    masks = {
        e: mask_stream("input", owner, e, other) for e, other in ((first, second), (second, first))
    }
    held = {e: p.context.randomness.draw(masks[e], *spec) for e in masks if p.rank in (e, owner)}
    if p.rank != owner:
        [m] = (yield Round(receive={owner: [spec]}))[owner]
        return {owner: m, first + second - p.rank: held[p.rank]}
    assert value is not None
    hide = torch.bitwise_xor if bits else torch.sub
    m = hide(hide(value, held[first]), held[second])
    yield Round(send={first: [m], second: [m]})
    return {second: held[first], first: held[second]}


def reveal(
    p: ThreeParty,
    x: Arith | Bool,
    to: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    to_dealer: bool = False,
) -> Steps[Tensor | None]:
    """Returns the ring elements, or bits, on the CPU; None at other parties than `to`, if given.

    1 round; each receiver gets the part that it lacks from one party, and an empty message from the
    other: so it has compared its public record with both. This is the only way to open a secret to
    a party. `dtype` is the name of their type in the record of reveals; `to_dealer` is for
    protocols whose dealer is none of the parties.
    """
    if to is not None:
        check_party(p, "to", to)
    p.context.admit_reveal(x, to, dtype)
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    if p.context.blind:
        return (yield from unopened(p, x, to, to_dealer=to_dealer))
    receivers = PARTIES if to is None else (to,)
    send: dict[int, list[Tensor]] = {j: [] for j in receivers if j != p.rank}
    send |= {j: [x.parts[j].contiguous()] for j in receivers if p.reveal_sender(j) == p.rank}
    receive: dict[int, list[Spec]] = {}
    if p.rank in receivers:
        held = next(iter(x.parts.values()))
        receive = {party: [] for party in PARTIES if party != p.rank}
        receive[p.reveal_sender(p.rank)] = [Spec(tuple(held.shape), held.dtype)]
    received = yield Round(send=send, receive=receive)
    if p.rank not in receivers:
        return None
    [missing] = received[p.reveal_sender(p.rank)]
    first, second = x.parts.values()
    if isinstance(x, Arith):
        return (first + second + missing).cpu()
    return plain_bits((first ^ second ^ missing).cpu(), x.shape)


def for_client(p: ThreeParty, x: Arith) -> Steps[Tensor | None]:
    """Returns what this party sends to a client that may learn x: elements, or None. No round.

    Party 1 sends part 0, and party 0 sends the sum of parts 1 and 2; only the client has both. The
    parties compare their public records before, since the client cannot.
    """
    p.context.admit_client_reveal(x)
    x = yield from p.settled.steps(x)
    p.context.mesh.compare()
    if p.context.blind:
        return torch.zeros(x.shape, dtype=p.ring.dtype) if p.rank in (0, 1) else None
    if p.rank == 1:
        return x.parts[0].cpu().contiguous()
    return (x.parts[1] + x.parts[2]).cpu() if p.rank == 0 else None


def nobodys(part: int) -> Stream:
    """Returns the stream of a part of a secret that nobody knows."""
    return common_stream("random", *holders(part))


def random(p: ThreeParty, shape: Sequence[int]) -> Steps[Arith]:
    """Returns uniform ring elements that nobody knows. No message."""
    parts = {part: p.context.draw(nobodys(part), shape) for part in holders(p.rank)}
    return Arith(parts, p.ring)
    yield  # a generator that needs no round


def random_bits(p: ThreeParty, shape: Sequence[int], width: int = 1) -> Steps[Bool]:
    """Returns uniform bits that nobody knows. No message."""
    form = (width, num_words(torch.Size(shape).numel()))
    parts = {part: p.context.draw_planes(nobodys(part), form) for part in holders(p.rank)}
    return Bool(parts, shape)
    yield  # a generator that needs no round


def refresh(p: ThreeParty, x: Arith | Bool) -> Steps[Arith | Bool]:
    """Returns the same secret in fresh parts. No message.

    All parties draw three random values whose sum is zero and add one to each part. An attacker who
    stole the old parts of one party and the new parts of another lacks these values, so that the
    parts do not fit together.
    """
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    held = next(iter(x.parts.values()))
    layout, changed = (tuple(held.shape), held.dtype), common_stream("refresh", *PARTIES)
    first, second = p.context.randomness.draws(changed, [layout, layout])
    if isinstance(x, Arith):
        changes = (first, second, -(first + second))
        return x.with_parts({i: part + changes[i] for i, part in x.parts.items()})
    flips = (first, second, first ^ second)
    return x.with_parts({i: part ^ flips[i] for i, part in x.parts.items()})
