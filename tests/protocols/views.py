"""What a party sees: programs of one operation each, a recorder of messages, and their pads.

A party's view of a run is its input, the keys it holds and the messages it receives. `joint_pads`
proves from runs that the messages tell it nothing: see its docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tests.protocols.chosen_randomness import Draw, changed_draws, other_words
from torch import Tensor

import tacit
from tacit import Session
from tacit.kernels import bit_planes, from_bit_planes
from tacit.protocols import BitSum

SHIFT = 6
Message = tuple[int, Tensor]  # sender and tensor, in the order in which a party received them
Operation = Callable[[Any, Tensor], object]

# Each operation by itself: on secrets that are all equal to the values, for |values| < 2^20. -----


def shared(p: Any, v: Tensor, owner: int = 1) -> Any:
    return p.share(v, owner, limit=1 << 20)


def flags(p: Any, v: Tensor, owner: int = 1, width: int = 1) -> Any:
    return p.share_bits(bit_planes(v, width), owner, v.shape, width)


def product(p: Any, v: Tensor, shift: int = 0) -> Any:
    return p.mul(shared(p, v, 1), shared(p, v, 2), shift=shift)


def of_all_owners(p: Any, v: Tensor) -> None:
    for owner in range(3):
        p.share(v, owner)
        flags(p, v, owner, 16)


def mixed(p: Any, v: Tensor) -> None:
    """Operations on results of operations, in one block and one after the other."""
    x, y = product(p, v, SHIFT), shared(p, v, 0)
    with p.parallel():
        negative, zero, z = p.sign(x), p.is_zero(y), p.mul(x, y)
    w = p.inject(p.bit_and(negative, p.bit_not(zero)), p.add(z, y))
    p.mul(w, p.truncate(p.mul(w, w, shift=SHIFT)))


OPERATIONS: dict[str, Operation] = {
    "share": of_all_owners,
    "mul": product,
    "square": lambda p, v: p.square(shared(p, v)),
    "matmul": lambda p, v: p.matmul(
        shared(p, v.reshape(-1, 8), 0), shared(p, v.reshape(8, -1)[:, :64], 2)
    ),
    "mul, divided": lambda p, v: p.settled(product(p, v, SHIFT)),
    "truncate": lambda p, v: p.truncate(shared(p, v).divided(SHIFT), exact=True),
    "truncate, probabilistic": lambda p, v: p.truncate(shared(p, v).divided(SHIFT), exact=False),
    "bit_and": lambda p, v: p.bit_and(flags(p, v, 1, 16), flags(p, v, 2, 16)),
    "bit_and of 4": lambda p, v: p.bit_and(*[flags(p, v, i % 3, 16) for i in range(4)]),
    "sign": lambda p, v: p.sign(p.share(v, 1)),
    "narrow sign": lambda p, v: p.sign(shared(p, v, 2)),
    "sign of a quotient": lambda p, v: p.sign(product(p, v, SHIFT)),
    "signs": lambda p, v: p.signs(shared(p, v), [0, 7, -9]),
    "is_zero": lambda p, v: p.is_zero(shared(p, v)),
    "inject": lambda p, v: p.inject(flags(p, v, 0), shared(p, v)),
    "inject of a quotient": lambda p, v: p.inject(flags(p, v, 2), product(p, v, SHIFT)),
    "inject_sums": lambda p, v: p.inject_sums(
        [flags(p, v, 0), flags(p, v, 1)],
        shared(p, v),
        [BitSum((1, -2), (3, 0)), BitSum((0, 0), (1, 1))],
    ),
    "relu": lambda p, v: p.relu(shared(p, v)),
    "relu of a quotient": lambda p, v: p.relu(product(p, v, SHIFT)),
    "max": lambda p, v: p.max(shared(p, v.reshape(-1, 4)), 1),
    "fourier": lambda p, v: p.fourier(shared(p, v), [0.5, 0.25], period_bits=20, fraction_bits=8),
    "exp_negative": lambda p, v: p.exp_negative(shared(p, v), fraction_bits=8),
    "mixed": mixed,
}


# Recording --------------------------------------------------------------------------------------


class Recorder:
    """Keeps copies of the messages that a session receives from now on."""

    def __init__(self, session: Session) -> None:
        self.messages: list[Message] = []
        mesh: Any = session.mesh
        exchange = mesh.exchange

        def recording(*args: Any, **kwargs: Any) -> dict[int, list[Tensor]]:
            received = exchange(*args, **kwargs)
            for peer, tensors in sorted(received.items()):
                self.messages += [(peer, tensor.clone()) for tensor in tensors]
            return received

        mesh.exchange = recording

    def take(self) -> list[Message]:
        taken, self.messages = self.messages, []
        return taken


def rotated(session: Session, by: int) -> Any:
    """Returns the session's protocol with its roles rotated by `by` parties, if it has any."""
    protocol: Any = session.protocol
    return protocol.rotated(by) if hasattr(protocol, "rotated") else protocol


def views(session: Session, names: Sequence[str], value: int | Tensor, turn: int, n: int):
    """Returns what this party receives in each operation."""
    p = rotated(session, turn)
    v = torch.full((n,), value, dtype=p.ring.dtype) if isinstance(value, int) else value
    recorder, found = Recorder(session), {}
    for name in names:
        OPERATIONS[name](p, v)
        found[name] = recorder.take()
    return found


# Pads -------------------------------------------------------------------------------------------


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


def unpadded(program: Callable[..., Any], receiver: int, *args: Any, **settings: Any) -> set[int]:
    """The numbers of the messages to `receiver` that no mask of their sender and for them hides.

    `program(session, *args)` returns the messages of a party. It runs once with fixed keys, then
    once for each draw of a key that the receiver does not hold, with other words for that draw.
    """
    draws: dict[Draw, Tensor] = {}

    def base(draw: Draw, words: Tensor) -> Tensor:
        if receiver not in draw.holders:
            draws[draw] = words.clone()
        return words

    def run(change: Callable[[Draw, Tensor], Tensor]) -> list[Message]:
        with changed_draws(change):
            return tacit.run(program, *args, **settings)[receiver]

    before = run(base)
    relations: dict[Draw, dict[int, bool]] = {}
    for target, old in list(draws.items()):
        new = other_words(target, old)

        def other(draw: Draw, words: Tensor, target: Draw = target, new: Tensor = new) -> Tensor:
            return new if draw == target else words

        pairs = enumerate(zip(before, run(other), strict=True))
        relations[target] = {
            i: target.hides(sender, receiver) and is_pad(a, b, old, new)
            for i, ((sender, a), (_, b)) in pairs
            if not torch.equal(a, b)
        }
    return joint_pads(len(before), relations)[1]
