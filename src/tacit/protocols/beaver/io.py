"""Input and output: a fresh sharing of zero hides an input, and another one what is revealed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...ring import num_words
from ...transport import Spec
from .. import clients
from ..input_checks import check_party, checked_elements, checked_planes, plain_bits
from ..share import Arith, Bool
from ..steps import Round, Steps
from ..zero_sharing import hidden_part, zero_shared
from .base import BeaverBase

CLIENT = -1  # the receiver of what goes to a client, in the name of a stream


def share(
    p: BeaverBase,
    value: Tensor | None,
    owner: int,
    shape: Sequence[int] | None = None,
    *,
    limit: int | None = None,
) -> Steps[Arith]:
    """Returns a secret that `owner` gives as ring elements; the others give its shape. No message.

    The parties hold a fresh sharing of zero, to which the owner adds its value.
    """
    value, spec = checked_elements(p, value, owner, shape)
    x = p.make(_input_part(p, value, spec, bits=False), limit)
    if p.tracks_owners:
        x.owner = owner
    return x
    yield  # a generator that needs no round


def share_bits(
    p: BeaverBase, planes: Tensor | None, owner: int, shape: Sequence[int], width: int = 1
) -> Steps[Bool]:
    """Returns secret bits that `owner` gives as planes of shape (width, words). No message."""
    planes, spec = checked_planes(p, planes, owner, shape, width)
    return Bool({p.rank: _input_part(p, planes, spec, bits=True)}, shape)
    yield  # a generator that needs no round


def _input_part(p: BeaverBase, value: Tensor | None, spec: Spec, *, bits: bool) -> Tensor:
    own = p.zeros(spec.shape, spec.dtype) if value is None else value
    return own if p.is_dealer else zero_shared(p.context, own, "input", p.ranks, bits=bits)


def reveal(
    p: BeaverBase,
    x: Arith | Bool,
    to: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    to_dealer: bool = False,
) -> Steps[Tensor | None]:
    """Returns the ring elements, or bits, on the CPU; None at other parties than `to`, if given.

    1 round; each receiver gets one element from each other party. A dealer gets None unless
    `to_dealer` is set. This is the only way to open a secret to a party. `dtype` is the name of
    their type in the record of reveals. Parts are hidden by a fresh sharing of zero, because those
    of a quotient depend on the parts of what was divided.
    """
    if to is not None:
        check_party(p, "to", to)
    p.context.admit_reveal(x, to, dtype, to_dealer=to_dealer)
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    receivers = [*p.ranks] if to is None else [to]
    receivers += [p.parties] if to_dealer and p.helpers else []
    senders = [rank for rank in p.ranks if receivers != [rank]]
    own = p.own(x)
    if p.rank in senders:
        own = hidden_part(p.context, own, "reveal", senders, receivers, bits=isinstance(x, Bool))
    send = {} if p.is_dealer else {j: [own] for j in receivers if j != p.rank}
    if p.rank not in receivers:
        yield Round(send)
        return None
    spec = Spec(tuple(own.shape), own.dtype)
    received = yield Round(send, {other: [spec] for other in p.others})
    return _plain(x, [own, *(received[other][0] for other in p.others)])


def _plain(x: Arith | Bool, parts: Sequence[Tensor]) -> Tensor:
    """The secret, from all of its parts."""
    total, *rest = parts
    for part in rest:
        total = total + part if isinstance(x, Arith) else total ^ part
    return total.cpu() if isinstance(x, Arith) else plain_bits(total.cpu(), x.shape)


def from_client(
    p: BeaverBase, message: clients.ClientInput, *, limit: int | None = None
) -> Steps[Arith]:
    """Returns the secret that a client split, from the message for this member. No round."""
    if p.is_dealer:
        return p.make(p.zeros(message.shape), limit)
    return (yield from clients.from_client(p, message, limit=limit))


def for_client(p: BeaverBase, x: Arith) -> Steps[Tensor | None]:
    """Returns what this member sends to a client that may learn x: elements, or None. No round.

    Every party sends its part, hidden as in a reveal; a dealer sends nothing. All compare their
    public records before, since the client cannot.
    """
    p.context.admit_client_reveal(x)
    x = yield from p.settled.steps(x)
    p.context.mesh.compare()
    if p.is_dealer:
        return None
    return hidden_part(p.context, p.own(x), "reveal", p.ranks, (CLIENT,), bits=False)


def random(p: BeaverBase, shape: Sequence[int]) -> Steps[Arith]:
    """Returns uniform ring elements that nobody knows. No message."""
    return p.make(p.source.random_part(shape, p.ring.dtype))
    yield  # a generator that needs no round


def random_bits(p: BeaverBase, shape: Sequence[int], width: int = 1) -> Steps[Bool]:
    """Returns uniform bits that nobody knows. No message."""
    form = (width, num_words(torch.Size(shape).numel()))
    return Bool({p.rank: p.source.random_part(form, torch.int64)}, shape)
    yield  # a generator that needs no round


def refresh(p: BeaverBase, x: Arith | Bool) -> Steps[Arith | Bool]:
    """Returns the same secret in fresh parts: a sharing of zero is added. No message.

    An attacker who stole the old parts of some parties and the new parts of others lacks the terms
    that their keys gave, so that the parts do not fit together.
    """
    bits = isinstance(x, Bool)
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    if p.is_dealer:
        return x
    own = zero_shared(p.context, p.own(x), "refresh", p.ranks, bits=bits)
    return x.with_parts({p.rank: own})
