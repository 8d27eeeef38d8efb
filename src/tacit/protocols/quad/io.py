"""Input and output: secrets into four parts and back, checked by two parties each.

An input has the part that its owner lacks at zero, draws two parts from keys, and sends the last to
the two others that hold it; they compare it. In a reveal each receiver gets the part that it lacks
from one party, and its hash from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import torch
from torch import Tensor

from ...errors import CheatingDetected, Party
from ...ring import num_words
from ...transport import Spec
from .. import clients
from ..blind import unopened
from ..clients import ClientInput
from ..input_checks import check_party, checked_elements, checked_planes, plain_bits
from ..randomness import Stream, common_stream
from ..share import Arith, Bool, Parts
from ..steps import Round, Steps
from .base import PARTIES, QuadBase, holders
from .verification import DIGEST, digest_of, verify

SENDS = {0: 1, 1: 0, 2: 0, 3: 1}  # who sends a receiver the part that it lacks
SENDS_HASH = {0: 2, 1: 3, 2: 3, 3: 2}  # and who sends the hash of that part


def share(
    p: QuadBase,
    value: Tensor | None,
    owner: int,
    shape: Sequence[int] | None = None,
    *,
    limit: int | None = None,
) -> Steps[Arith]:
    """Returns a secret that `owner` gives as ring elements; the others give its shape.

    1 round; the owner sends 1 element to each of two parties.
    """
    value, spec = checked_elements(p, value, owner, shape)
    parts = yield from _share_parts(p, value, owner, spec, bits=False)
    return Arith(parts, p.ring, limit=limit)


def share_bits(
    p: QuadBase, planes: Tensor | None, owner: int, shape: Sequence[int], width: int = 1
) -> Steps[Bool]:
    """Returns secret bits that `owner` gives as planes of shape (width, words). As `share`."""
    planes, spec = checked_planes(p, planes, owner, shape, width)
    return Bool((yield from _share_parts(p, planes, owner, spec, bits=True)), shape)


def _share_parts(
    p: QuadBase, value: Tensor | None, owner: int, spec: Spec, *, bits: bool
) -> Steps[Parts]:
    sent = 0 if owner == 3 else 3
    receivers = tuple(party for party in holders(sent) if party != owner)
    parts: Parts = {}
    for part in holders(p.rank):
        if part == owner:
            parts[part] = torch.zeros(spec.shape, dtype=spec.dtype, device=p.device)
        elif part != sent:
            source = Stream(frozenset(holders(part)), "input", owner, receivers)
            parts[part] = p.context.randomness.draw(source, spec.shape, spec.dtype)
    if p.rank == owner:
        assert value is not None
        hide = torch.bitwise_xor if bits else torch.sub
        parts[sent] = reduce(hide, parts.values(), value)
        yield Round({j: [parts[sent]] for j in receivers})
    elif p.rank in receivers:
        [parts[sent]] = (yield Round(receive={owner: [spec]}))[owner]
        p.views.add(receivers, [parts[sent]])
    else:
        yield Round()
    return parts


def reveal(
    p: QuadBase,
    x: Arith | Bool,
    to: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    to_dealer: bool = False,
) -> Steps[Tensor | None]:
    """Returns the ring elements, or bits, on the CPU; None at other parties than `to`, if given.

    2 rounds: all views are compared, then each receiver gets one element and a hash. This is the
    only way to open a secret to a party. `dtype` is the name of their type in the record of
    reveals; `to_dealer` is for protocols whose dealer is none of the parties.
    """
    if to is not None:
        check_party(p, "to", to)
    p.context.admit_reveal(x, to, dtype)
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    if p.context.blind:
        return (yield from unopened(p, x, to, to_dealer=to_dealer))
    yield from verify(p)
    receivers = PARTIES if to is None else (to,)
    send: dict[int, list[Tensor]] = {j: [] for j in receivers if j != p.rank}
    for j in send:
        if SENDS[j] == p.rank:
            send[j] = [x.parts[j].contiguous()]
        elif SENDS_HASH[j] == p.rank:
            send[j] = [p.context.compute(digest_of, x.parts[j]).to(p.device)]
    if p.rank not in receivers:
        yield Round(send=send)
        return None
    held = next(iter(x.parts.values()))
    receive: dict[int, list[Spec]] = {party: [] for party in holders(p.rank)}
    receive[SENDS[p.rank]] = [Spec(tuple(held.shape), held.dtype)]
    receive[SENDS_HASH[p.rank]] = [DIGEST]
    received = yield Round(send, receive)
    [missing] = received[SENDS[p.rank]]
    p.context.check(partial(_check_part, p.rank), missing, *received[SENDS_HASH[p.rank]])
    if isinstance(x, Arith):
        return reduce(torch.add, x.parts.values(), missing).cpu()
    return plain_bits(reduce(torch.bitwise_xor, x.parts.values(), missing).cpu(), x.shape)


def _check_part(rank: int, _number: int, part: Tensor, digest: Tensor) -> None:
    """Raises unless the part that this party lacks has the hash that another one tells."""
    if not torch.equal(digest_of(part), digest.cpu()):
        raise _wrong_part(rank)


def _wrong_part(rank: int) -> CheatingDetected:
    return CheatingDetected(
        Party(SENDS[rank])
        + " and "
        + Party(SENDS_HASH[rank])
        + " disagree about the last part of a result: one of them deviates from the protocol",
        limit="the result is not used",
        remedy="do not use the shares of this run again; start anew without that party",
    )


def from_client(p: QuadBase, message: ClientInput, *, limit: int | None = None) -> Steps[Arith]:
    """Returns the secret that a client split, from the message for this party. No round.

    The holders of each part compare it, so that a client cannot give them different ones.
    """
    x = yield from clients.from_client(p, message, limit=limit)
    for part in sorted(x.parts):
        p.views.add(holders(part), [x.parts[part]])
    return x


def for_client(p: QuadBase, x: Arith) -> Steps[Tensor | None]:
    """Returns what this party sends to a client that may learn x: the term that its side knows.

    1 round. Both parties of a side send the same, and the client compares.
    """
    p.context.admit_client_reveal(x)
    x = yield from p.settled.steps(x)
    p.context.mesh.compare()
    if p.context.blind:
        return torch.zeros(x.shape, dtype=p.ring.dtype)
    yield from verify(p)
    return p.known(x).cpu()


def joined_output(messages: Sequence[Tensor]) -> Tensor:
    """Returns x, at a client, from the messages of all four parties; raises CheatingDetected."""
    if not (torch.equal(messages[0], messages[3]) and torch.equal(messages[1], messages[2])):
        raise CheatingDetected(
            "parties that know the same term of a result sent different ones",
            limit="the result is not used",
            remedy="ask again after the parties have found the one that deviates",
        )
    return messages[0] + messages[1]


def random(p: QuadBase, shape: Sequence[int]) -> Steps[Arith]:
    """Returns uniform ring elements that nobody knows. No message."""
    parts = {part: p.context.draw(_nobodys(part), shape) for part in holders(p.rank)}
    return Arith(parts, p.ring)
    yield  # a generator that needs no round


def random_bits(p: QuadBase, shape: Sequence[int], width: int = 1) -> Steps[Bool]:
    """Returns uniform bits that nobody knows. No message."""
    form = (width, num_words(torch.Size(shape).numel()))
    return Bool(
        {part: p.context.draw_planes(_nobodys(part), form) for part in holders(p.rank)}, shape
    )
    yield  # a generator that needs no round


def _nobodys(part: int) -> Stream:
    """The stream of a part of a secret that nobody knows."""
    return common_stream("random", *holders(part))


def refresh(p: QuadBase, x: Arith | Bool) -> Steps[Arith | Bool]:
    """Returns the same secret in fresh parts. No message.

    All parties draw four random values whose sum is zero and add one to each part.
    """
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    held = next(iter(x.parts.values()))
    layout = (tuple(held.shape), held.dtype)
    drawn = p.context.randomness.draws(common_stream("refresh", *PARTIES), [layout] * 3)
    if isinstance(x, Arith):
        changes = [*drawn, -reduce(torch.add, drawn)]
        return x.with_parts({i: part + changes[i] for i, part in x.parts.items()})
    changes = [*drawn, reduce(torch.bitwise_xor, drawn)]
    return x.with_parts({i: part ^ changes[i] for i, part in x.parts.items()})
