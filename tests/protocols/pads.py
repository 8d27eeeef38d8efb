"""A proof from runs that the messages to a party tell it nothing: each has a mask of its own.

A party's view of a run is its input, the keys it holds and the messages it receives. See
`joint_pads`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import local
from typing import Any

import torch
from tests.protocols import views
from tests.protocols.chosen_randomness import (
    Change,
    Draw,
    changed_draws,
    other_words,
    seeded_words,
)
from tests.protocols.members import parties_of, run_members
from tests.protocols.views import Message
from torch import Tensor

from tacit import Session
from tacit.kernels import from_bit_planes


def is_pad(before: Tensor, after: Tensor, old: Tensor, new: Tensor) -> bool:
    """Whether a message changed by exactly as much as the mask, so it is a value minus the mask.

    Of a mask in the ring the message may hold the low bits only, as planes.
    """
    if before.numel() == old.numel() and before.dtype == old.dtype:
        change, by = (after - before).view(-1), (new - old).view(-1)
        flipped = ((after ^ before).view(-1) == (new ^ old).view(-1)).all()
        return bool((change == by).all() or (change == -by).all() or flipped)
    width = before.shape[0] if before.dim() == 2 else 0
    if not 0 < width < 64 or before.shape[1] != -(-old.numel() // 64):
        return False
    change = from_bit_planes(after, old.shape, torch.int64)
    change -= from_bit_planes(before, old.shape, torch.int64)
    by = (new - old).to(torch.int64)
    return bool(((change + by) % (1 << width) == 0).all())


def joint_pads(
    messages: int, relations: dict[Draw, dict[int, bool]]
) -> tuple[list[tuple[int, Draw]], set[int]]:
    """Messages matched to masks of their own, and the messages for which there are none.

    relations[d][i]: mask d changes message i, and whether as its pad. If d, uniform and unknown to
    the receiver, pads message i and changes no other of a set of messages, then message i is
    uniform whatever the others of the set are. Taking one message at a time out of the set shows
    that all of them together are uniform, and independent of the secrets.
    """
    left, found = set(range(messages)), []
    progress = True
    while progress:
        progress = False
        for draw, touched in relations.items():
            now = [i for i in touched if i in left]
            if len(now) == 1 and touched[now[0]]:
                left.remove(now[0])
                found.append((now[0], draw))
                progress = True
    return found, left


def replaced(draw: Draw, words: Tensor, target: Draw, new: Tensor) -> Tensor:
    """The words of a draw, with the bytes that are also the target's taken from `new`."""
    low, high = max(draw.start, target.start), min(draw.end, target.end)
    if draw.key != target.key or low >= high:
        return words
    flat = words.reshape(-1).clone()
    taken = new.reshape(-1).view(torch.uint8)[low - target.start : high - target.start]
    flat.view(torch.uint8)[low - draw.start : high - draw.start] = taken
    return flat.view(words.shape)


Pool = int | tuple[int, ...]  # a receiver, or several that pool what they hold and receive


def unpadded(
    program: Callable[..., Any], pool: Pool, *args: Any, told: int = 0, **settings: Any
) -> set[int]:
    """The numbers of the messages to a pool that no mask of their sender and for it hides.

    `program(session, *args)` returns the messages of a member. told: so many of the last messages
    are not looked at, because the receivers may learn what follows from them.
    """
    return unpadded_of_each(program, [pool], *args, told=told, **settings)[pool]


def unpadded_of_each(
    program: Callable[..., Any], pools: Iterable[Pool], *args: Any, told: int = 0, **settings: Any
) -> dict[Pool, set[int]]:
    """What `unpadded` returns, for each pool.

    The program runs once with fixed keys, then once for each draw that may hide a message to a pool
    that does not hold its key, with other words for that draw.
    """
    members = {pool: {pool} if isinstance(pool, int) else {*pool} for pool in pools}
    draws: dict[Draw, Tensor] = {}

    def base(draw: Draw, words: Tensor) -> Tensor:
        draws[draw] = words.clone()
        return words

    def run(changes: Sequence[Change]) -> Iterator[dict[Pool, list[Received]]]:
        for by_member in run_with_each(changes, program, *args, **settings):
            found = {pool: pooled({r: by_member[r] for r in own}) for pool, own in members.items()}
            yield {pool: messages[: len(messages) - told] for pool, messages in found.items()}

    (before,) = run([base])
    targets = {
        target: other_words(target, old)
        for target, old in draws.items()
        if any(_may_hide(target, own, before[pool]) for pool, own in members.items())
    }
    changes = [partial(replaced, target=target, new=new) for target, new in targets.items()]
    *after, again = run([*changes, unchanged])
    assert all(map(_same, before.values(), again.values())), "a run depends on those before it"
    relations: dict[Pool, dict[Draw, dict[int, bool]]] = {pool: {} for pool in members}
    for (target, new), messages in zip(targets.items(), after, strict=True):
        for pool, own in members.items():
            if _may_hide(target, own, before[pool]):
                pairs = enumerate(zip(before[pool], messages[pool], strict=True))
                relations[pool][target] = {
                    i: target.hides(sender, receiver) and is_pad(a, b, draws[target], new)
                    for i, ((sender, receiver, a), (_, _, b)) in pairs
                    if not torch.equal(a, b)
                }
    return {pool: joint_pads(len(before[pool]), relations[pool])[1] for pool in members}


def run_with_each(
    changes: Sequence[Change], program: Callable[..., Any], *args: Any, **settings: Any
) -> list[list[Any]]:
    """What the program returns at each member, by rank, for each change of draws.

    One session runs it for one change after the other, always from the same number of a call.
    """
    now = local()  # each member is a thread, and some are ahead of others

    def each(session: Session) -> list[Any]:
        streams, mesh, found = session.protocol.context.streams, session.mesh, []
        number, exchange = streams.number, mesh.exchange
        for chosen in changes:
            now.change, streams.number, mesh.exchange = chosen, number, exchange
            found.append(program(session, *args))
        return found

    def change(draw: Draw, words: Tensor) -> Tensor:
        return getattr(now, "change", unchanged)(draw, words)

    with changed_draws(change):
        return [list(found) for found in zip(*run_members(each, **settings), strict=True)]


def unchanged(_: Draw, words: Tensor) -> Tensor:
    return words


def _same(some: Sequence[Received], others: Sequence[Received]) -> bool:
    """Whether a pool received the same messages twice."""
    return len(some) == len(others) and all(
        (a[:2], True) == (b[:2], _equal(a[2], b[2])) for a, b in zip(some, others, strict=True)
    )


Received = tuple[int, int, Tensor]  # sender, receiver, tensor


def _may_hide(draw: Draw, pool: set[int], messages: Iterable[Received]) -> bool:
    """Whether a draw is for masks on one of these messages, and unknown to all who receive them."""
    by_sender = any(draw.hides(sender, receiver) for sender, receiver, _ in messages)
    return by_sender and not draw.holders & pool


def pooled(by_receiver: dict[int, list[Message]]) -> list[Received]:
    """Everything that comes from outside a pool, in order; what goes to several is one message."""
    found: list[Received] = []
    for receiver, messages in by_receiver.items():
        for sender, tensor in messages:
            known = any(
                (by, to != receiver) == (sender, True) and _equal(tensor, other)
                for by, to, other in found
            )
            if sender not in by_receiver and not known:
                found.append((sender, receiver, tensor))
    return found


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def messages_of(
    session: Session, name: str, turn: int, n: int, limit: int | None = None
) -> list[Message]:
    words = seeded_words("values", (n,), session.protocol.ring.dtype)
    value = words >> (session.protocol.ring.bits - 10)
    session.protocol.context.memory_limit = limit
    return views.views(session, [name], value, turn, n)[name]


def bare_messages(
    protocol: str,
    ring: int,
    name: str,
    *,
    limit: int | None = None,
    receivers: Iterable[Pool] | None = None,
) -> dict[Pool, set[int]]:
    """By receiver, of all parties unless some are given, messages that no mask hides."""
    n, turn = 104, len(name) % 3  # two words of planes, one of which is not full
    settings = {"protocol": protocol, "ring": ring, "fraction_bits": 8}
    pools = range(parties_of(protocol)) if receivers is None else receivers
    found = unpadded_of_each(messages_of, pools, name, turn, n, limit, **settings)
    return {receiver: bare for receiver, bare in found.items() if bare}
