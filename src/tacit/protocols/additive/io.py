"""Input and output: x = m + a_1 + ... + a_n, where all parties know m and party i knows a_i.

An input is hidden by the mask of its owner alone: the other masks are zero. A reveal tells its
receivers the sum of the masks and nothing else about them. NOTE [masks of a reveal]: party i must
not send a_i itself. The sum of an input of party 1 and an input of party 2 has the masks a_1 and
a_2 of those inputs, so a receiver that got both one by one could open both inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...ring import num_words
from ...transport import Spec
from ..blind import unopened
from ..input_checks import check_party, checked_elements, checked_planes, plain_bits
from ..randomness import common_stream, mask_stream
from ..share import Arith, Bool, Parts
from ..steps import PASS, Round, Steps
from ..zero_sharing import hidden_part

if TYPE_CHECKING:
    from .protocol import Additive

Combine = Callable[[Tensor, Tensor], Tensor]


def share(
    p: Additive,
    value: Tensor | None,
    owner: int,
    shape: Sequence[int] | None = None,
    *,
    limit: int | None = None,
) -> Steps[Arith]:
    """Returns a secret that `owner` gives as ring elements; the others give its shape.

    1 round; the owner sends one element to each other party.
    """
    value, spec = checked_elements(p, value, owner, shape)
    parts = yield from _share_parts(p, value, owner, spec, torch.sub)
    return Arith(parts, p.ring, limit=limit)


def share_bits(
    p: Additive, planes: Tensor | None, owner: int, shape: Sequence[int], width: int = 1
) -> Steps[Bool]:
    """Returns secret bits that `owner` gives as planes of shape (width, words). As `share`."""
    planes, spec = checked_planes(p, planes, owner, shape, width)
    parts = yield from _share_parts(p, planes, owner, spec, torch.bitwise_xor)
    return Bool(parts, shape)


def _share_parts(
    p: Additive, value: Tensor | None, owner: int, spec: Spec, hide: Combine
) -> Steps[Parts]:
    """m = value - a, where only the owner and the dealer know a, the owner's mask."""
    roles, others = p.roles, [e for e in p.roles.evaluators if e != owner]
    if p.rank in others:
        m = (yield Round(receive={owner: [spec]}))[owner][0]
        return {roles.opened: m, roles.mask_of[p.rank]: _zeros(p, spec)}
    hidden = mask_stream("input", owner, roles.dealer, *others)
    mask = p.context.randomness.draw(hidden, spec.shape, spec.dtype)
    if p.is_dealer:
        yield PASS
        return {part: mask if e == owner else _zeros(p, spec) for e, part in roles.mask_of.items()}
    assert value is not None
    m = hide(value, mask)
    yield Round(send={e: [m] for e in others})
    return {roles.opened: m, roles.mask_of[owner]: mask}


def _zeros(p: Additive, spec: Spec) -> Tensor:
    return torch.zeros(spec.shape, dtype=spec.dtype, device=p.device)


def reveal(
    p: Additive,
    x: Arith | Bool,
    to: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    to_dealer: bool = False,
) -> Steps[Tensor | None]:
    """Returns the ring elements, or bits, on the CPU; None at other parties than `to`, if given.

    1 round; each receiver gets one element from each other party. The dealer gets None unless
    `to_dealer` is set: then the leader sends it m. This is the only way to open a secret to a
    party. `dtype` is the name of their type in the record of reveals.
    """
    if to is not None:
        check_party(p, "to", to)
    p.context.admit_reveal(x, to, dtype, to_dealer=to_dealer)
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    if p.context.blind:
        return (yield from unopened(p, x, to, to_dealer=to_dealer))
    roles = p.roles
    if p.is_dealer:
        return (yield from _reveal_to_dealer(p, x, to_dealer))
    receivers = roles.evaluators if to is None else (to,)
    own = hidden_mask(p, x, [e for e in roles.evaluators if to is None or e != to])
    send: dict[int, list[Tensor]] = {j: [own] for j in receivers if j != p.rank}
    if to_dealer:
        send[roles.dealer] = [p.opened(x).contiguous()] if p.is_leader else []
    if p.rank not in receivers:
        yield Round(send=send)
        return None
    spec = Spec(tuple(own.shape), own.dtype)
    received = yield Round(send, {e: [spec] for e in p.others})
    return _plain(x, [p.opened(x), own, *(received[e][0] for e in p.others)])


def _reveal_to_dealer(p: Additive, x: Arith | Bool, to_dealer: bool) -> Steps[Tensor | None]:
    if not to_dealer:
        yield PASS
        return None
    masks = [x.parts[i] for i in p.roles.masks]
    receive: dict[int, list[Spec]] = {e: [] for e in p.roles.evaluators}
    receive[p.roles.leader] = [Spec(tuple(masks[0].shape), masks[0].dtype)]
    received = yield Round(receive=receive)
    return _plain(x, [received[p.roles.leader][0], *masks])


def _plain(x: Arith | Bool, parts: Sequence[Tensor]) -> Tensor:
    """The secret, from tensors that add up to it."""
    if isinstance(x, Bool):
        return plain_bits(_folded(torch.bitwise_xor, parts).cpu(), x.shape)
    return _folded(torch.add, parts).cpu()


def _folded(combine: Combine, tensors: Sequence[Tensor]) -> Tensor:
    total, *rest = tensors
    for tensor in rest:
        total = combine(total, tensor)
    return total


def hidden_mask(p: Additive, x: Arith | Bool, senders: Sequence[int]) -> Tensor:
    """Returns a_i, hidden so that only the sum over all senders can be read off.

    See NOTE [masks of a reveal]. A receiver of a single mask that knows the secret knows it, too.
    """
    own = p.own_mask(x)
    if p.rank not in senders:
        return own.contiguous()
    bits = isinstance(x, Bool)
    return hidden_part(p.context, own, "reveal", senders, p.roles.evaluators, bits=bits)


def for_client(p: Additive, x: Arith) -> Steps[Tensor | None]:
    """Returns what this member sends to a client that may learn x: elements, or None. No round.

    Every party sends its mask, hidden as in a reveal, and the leader adds m; the dealer sends
    nothing. All compare their public records before, since the client cannot.
    """
    p.context.admit_client_reveal(x)
    x = yield from p.settled.steps(x)
    p.context.mesh.compare()
    if p.is_dealer:
        return None
    own = hidden_mask(p, x, p.roles.evaluators)
    if p.context.blind:
        return torch.zeros_like(own, device="cpu")
    return (own + p.opened(x) if p.is_leader else own).cpu()


def random(p: Additive, shape: Sequence[int]) -> Steps[Arith]:
    """Returns uniform ring elements that nobody knows. No message."""
    return Arith(_random_parts(p, shape, p.ring.dtype), p.ring)
    yield  # a generator that needs no round


def random_bits(p: Additive, shape: Sequence[int], width: int = 1) -> Steps[Bool]:
    """Returns uniform bits that nobody knows. No message."""
    form = (width, num_words(torch.Size(shape).numel()))
    return Bool(_random_parts(p, form, torch.int64), shape)
    yield  # a generator that needs no round


def _random_parts(p: Additive, shape: Sequence[int], dtype: torch.dtype) -> Parts:
    """m from a key that the dealer lacks, and each mask from one that all other parties lack."""
    roles, draw = p.roles, p.context.randomness.draw
    known = roles.evaluators if p.is_dealer else (p.rank,)
    parts = {
        roles.mask_of[e]: draw(common_stream("random", e, roles.dealer), shape, dtype)
        for e in known
    }
    if not p.is_dealer:
        parts[roles.opened] = draw(common_stream("random", *roles.evaluators), shape, dtype)
    return parts


def refresh(p: Additive, x: Arith | Bool) -> Steps[Arith | Bool]:
    """Returns the same secret in fresh parts. No message.

    All members draw a random value for each mask, add it, and take all of them from m. An attacker
    who stole the old parts of some and the new parts of others lacks these values, so that the
    parts do not fit together.
    """
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    held = next(iter(x.parts.values()))
    roles, layout = p.roles, (tuple(held.shape), held.dtype)
    source = common_stream("refresh", *roles.evaluators, roles.dealer)
    drawn = p.context.randomness.draws(source, [layout] * len(roles.masks))
    changes = dict(zip(roles.masks, drawn, strict=True))
    if isinstance(x, Bool):
        changes[roles.opened] = _folded(torch.bitwise_xor, drawn)
        return x.with_parts({i: part ^ changes[i] for i, part in x.parts.items()})
    changes[roles.opened] = -_folded(torch.add, drawn)
    return x.with_parts({i: part + changes[i] for i, part in x.parts.items()})
