"""What a corrupted party does with a message that it sends: see `tamper`.

A manipulation of words keeps the form of a message; one of delivery keeps its words. `Tap` stands
between a party and its channels, so that it counts, records and changes everything that is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from hashlib import shake_256
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..transport import Channel, Mesh
from ..transport.wire.fixed_message import FixedTensors
from ..transport.wire.frames import Kind


class Sent(NamedTuple):
    """A message of a run: the `number`-th that its party sends.

    operation: that of the program which sends it. step: the number of the protocol's call, and that
    of the round in it, as the message carries them.
    """

    party: int
    number: int
    peer: int
    operation: str
    step: int
    words: tuple[Tensor, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of its tensors."""
        return tuple(tuple(tensor.shape) for tensor in self.words)

    def __repr__(self) -> str:
        call, round_ = self.step >> 16, self.step & 0xFFFF
        where = f"{self.operation}, call {call}, round {round_}"
        return f"message {self.number} {self.party}->{self.peer} ({where}, {self.shapes})"


class Manipulation(NamedTuple):
    """What is done with the `number`-th message of a party; `seed` draws positions and words.

    tensor: the one of the message that is changed, if it is one. recorded: what is sent instead,
    from another run.
    """

    number: int
    kind: str
    tensor: int = 0
    seed: int = 0
    recorded: tuple[Tensor, ...] = ()

    def __repr__(self) -> str:
        return f"{self.kind} (tensor {self.tensor}, seed {self.seed})"


# Of the words of one tensor ----------------------------------------------------------------------


def _drawn(seed: int, use: str, size: int) -> bytes:
    return shake_256(f"{seed} {use}".encode()).digest(size)


def _below(limit: int, seed: int, use: str) -> int:
    return int.from_bytes(_drawn(seed, use, 8), "little") % limit


def _on_one_word(change: Callable[[int, int, int], int]) -> Callable[[Tensor, int], Tensor]:
    """Changes one element, given as a number of so many bits, with a seed."""

    def apply(tensor: Tensor, seed: int) -> Tensor:
        size = tensor.element_size()
        data = _bytes(tensor)
        start = _below(tensor.numel(), seed, "element") * size
        word = int.from_bytes(data[start : start + size], "little")
        made = change(word, 8 * size, seed) % (1 << 8 * size)
        data[start : start + size] = made.to_bytes(size, "little")
        return _from_bytes(data, tensor)

    return apply


def _bytes(tensor: Tensor) -> bytearray:
    flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return bytearray(flat.numpy().tobytes())


def _from_bytes(data: bytearray, like: Tensor) -> Tensor:
    flat = torch.frombuffer(data, dtype=torch.uint8).view(like.dtype)
    return flat.view(like.shape).to(like.device)


def _random(tensor: Tensor, seed: int) -> Tensor:
    return _from_bytes(bytearray(_drawn(seed, "words", tensor.nbytes)), tensor)


CHANGES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "flip a bit": _on_one_word(lambda word, bits, seed: word ^ 1 << _below(bits, seed, "bit")),
    "add 1": _on_one_word(lambda word, _bits, _seed: word + 1),
    "add 12345": _on_one_word(lambda word, _bits, _seed: word + 12345),
    "add the top bit": _on_one_word(lambda word, bits, _seed: word + (1 << bits - 1)),
    "random words": _random,
    "zeros": lambda tensor, _seed: torch.zeros_like(tensor),
}
EXCHANGED, REPLAYED = "exchange two tensors", "replay"
WORDS = (*CHANGES, EXCHANGED, REPLAYED)
DROPPED, REPEATED, DELAYED = "drop", "send twice", "send after the next"
DELIVERY = (DROPPED, REPEATED, DELAYED)


def changed_words(tensors: Sequence[Tensor], how: Manipulation) -> list[Tensor]:
    """Returns what is sent instead of the tensors of a message."""
    made = list(tensors)
    if how.kind == REPLAYED:
        return list(how.recorded)
    if how.kind == EXCHANGED:
        made[how.tensor], made[how.tensor + 1] = made[how.tensor + 1], made[how.tensor]
    elif how.kind in CHANGES:
        made[how.tensor] = CHANGES[how.kind](made[how.tensor], how.seed)
    return made


def manipulations_of(
    sent: Sent, kinds: Collection[str] = (*WORDS, *DELIVERY)
) -> list[Manipulation]:
    """Returns everything of these kinds that can be done with a message."""
    number, words = sent.number, sent.words
    full = [i for i, tensor in enumerate(words) if tensor.numel()]
    pairs = [i for i in full if words[i + 1 : i + 2] and _alike(words[i], words[i + 1])]
    found = [Manipulation(number, kind, i) for kind in CHANGES for i in full]
    found += [Manipulation(number, EXCHANGED, i) for i in pairs]
    found += [Manipulation(number, REPLAYED, recorded=words)] if full else []
    found += [Manipulation(number, kind) for kind in DELIVERY]
    return [one._replace(seed=i) for i, one in enumerate(found) if one.kind in kinds]


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


# Between a party and its channels ----------------------------------------------------------------


class Tap:
    """Counts what a party sends from now on, and does with it what is asked for.

    sent: the messages, if they are kept. changed: whether something went out that an honest party
    would not have sent.
    """

    def __init__(self, mesh: Mesh, *, keeps: bool = False) -> None:
        self.sent: list[Sent] = []
        self.number, self.changed = 0, False
        self._mesh, self._keeps = mesh, keeps
        self._asked: dict[int, Manipulation] = {}
        self._late: dict[int, Callable[[], int]] = {}
        for peer in range(mesh.parties):
            if peer != mesh.rank:
                channel: Any = mesh.channel(peer)
                channel.send = partial(self._send, peer, channel.send)
                channel.send_part = partial(Channel.send_part, channel)  # as a whole, by `send`
                channel.send_fixed = partial(_send_as_usual, channel)

    def ask(self, wanted: Iterable[Manipulation]) -> None:
        """Does this with the messages that follow, which are counted from zero again."""
        self.number, self.changed = 0, False
        self._asked = {one.number: one for one in wanted}

    def _send(
        self,
        peer: int,
        send: Callable[..., int],
        kind: Kind,
        operation: int,
        digest: bytes,
        tensors: Sequence[Tensor],
    ) -> int:
        how = self._asked.get(self.number)
        if self._keeps:
            self._keep(peer, operation, tensors)
        self.number += 1
        put = partial(send, kind, operation, digest)
        if how is None:
            size = put(tensors)
        elif how.kind in DELIVERY:
            self.changed = True
            return self._deliver(peer, how.kind, partial(put, tensors), tensors)
        else:
            made = changed_words(tensors, how)
            self.changed |= any(map(_differ, made, tensors))
            size = put(made)
        if late := self._late.pop(peer, None):
            late()
        return size

    def _deliver(
        self, peer: int, kind: str, put: Callable[[], int], tensors: Sequence[Tensor]
    ) -> int:
        if kind == REPEATED:
            put()
            return put()
        if kind == DELAYED:
            self._late[peer] = put
        return sum(tensor.nbytes for tensor in tensors)

    def _keep(self, peer: int, step: int, tensors: Sequence[Tensor]) -> None:
        entry = self._mesh.record.entry(self._mesh.record.count - 1)
        words = tuple(tensor.clone() for tensor in tensors)
        name = entry.name if entry else ""
        self.sent.append(Sent(self._mesh.rank, self.number, peer, name, step, words))


def _send_as_usual(channel: Channel, message: FixedTensors, operation: int, digest: bytes) -> None:
    channel.send(Kind.TENSORS, operation, digest, [x.clone() for x in message])


def _differ(one: Tensor, other: Tensor) -> bool:
    return not torch.equal(one, other)
