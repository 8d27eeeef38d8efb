"""Channels between threads of one process: tensors are handed over without a copy."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from torch import Tensor

from ...errors import Party, PeerClosed, PeerTimeout
from ..channel import (
    LOOK_AROUND_SECONDS,
    Bell,
    Channel,
    Expected,
    LastWord,
    Message,
    check_size,
    desync,
)
from ..devices import CPU, Ready, handed_over, ready
from ..limits import Limits
from ..mesh import Mesh
from ..shaping import Network, NetworkSetting, Wire
from ..shaping import network as build_network
from ..wire.frames import Kind, Layout, layout
from .interpreter_lock import NO_TURN, Turn


class _Letter(NamedTuple):
    kind: Kind
    operation: int
    layout: Layout
    message: Message
    ready: Ready | None


class Desk(Bell):
    """What one party has been sent and not yet taken, by sender; one lock and one bell for all."""

    def __init__(self, peers: Collection[int], turn: Turn = NO_TURN) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.sleepers = 0  # who wait for a change
        self.turn = turn
        self.letters: dict[int, deque[_Letter]] = {peer: deque() for peer in peers}
        self.queued = dict.fromkeys(peers, 0)
        self.last_words: dict[int, LastWord] = {}
        self.closed = False
        self._told: set[int] = set()

    def wait(self, peers: Collection[int], seconds: float) -> Collection[int]:
        with self.lock:
            if not self._news(peers):
                self.await_change(self.turn, lambda: self._news(peers), seconds)
            if not self.last_words:
                return ()
            ended = self.last_words.keys() - self._told
            self._told |= ended
            return ended

    def await_change(self, turn: Turn, what: Callable[[], bool], seconds: float) -> None:
        """Waits for something to be so; whoever waits gives up its turn. The lock is held."""
        turn.give()
        self.sleepers += 1
        self.changed.wait_for(what, seconds)
        self.sleepers -= 1
        self.changed.release()  # a turn is not waited for with the desk locked
        try:
            turn.take()
        finally:
            self.changed.acquire()

    def _news(self, peers: Collection[int]) -> bool:
        ended = self.last_words
        for peer in peers:
            if self.letters[peer] or peer in ended:
                return True
        return bool(ended) and bool(ended.keys() - self._told)

    def put(self, party: int, letter: _Letter) -> None:
        """Lays down a letter from a party, and wakes whoever waits for one."""
        with self.lock:
            self.letters[party].append(letter)
            self.queued[party] += letter.message.size
            if self.sleepers:
                self.changed.notify_all()

    def take(self, peer: int) -> _Letter | None:
        """The next letter from a peer, if there is one."""
        with self.lock:
            if not self.letters[peer]:
                return None
            letter = self.letters[peer].popleft()
            self.queued[peer] -= letter.message.size
            if self.sleepers:
                self.changed.notify_all()
            return letter


class MemoryChannel(Channel):
    """This party's end of a pair of desks. Received tensors are the sender's: do not write them."""

    def __init__(self, own: Desk, other: Desk, party: int, peer: int, limits: Limits, wire: Wire):
        self.peer = peer
        self._own, self._other, self._party = own, other, party
        self._limits, self.wire = limits, wire

    def send(self, kind: Kind, operation: int, tensors: Sequence[Tensor]) -> int:
        how = layout(tuple([(tensor.shape, tensor.dtype) for tensor in tensors]))
        message = Message(list(tensors), how.size, self.wire.stamp())
        letter = _Letter(kind, operation, how, message, ready(tensors))
        if self._other.closed or not self._has_room(how.size):
            self._await_room(how.size, operation)
        self._other.put(self._party, letter)
        return how.size

    def _await_room(self, size: int, operation: int) -> None:
        until = time.monotonic() + self._limits.deadline
        while not self._has_room(size):
            if time.monotonic() > until:
                raise PeerTimeout(
                    Party(self.peer)
                    + f" took nothing of what is sent to it for {self._limits.deadline} s",
                    party=self.peer,
                    operation=operation,
                )
            with self._other.changed:
                turn = self._own.turn
                self._other.await_change(turn, lambda: self._has_room(size), LOOK_AROUND_SECONDS)
            self.look_around()
        if self._other.closed:
            raise self._ended(operation)

    def _has_room(self, size: int) -> bool:
        queued = self._other.queued[self._party]
        fits = not queued or queued + size <= self._limits.max_queued_bytes
        return fits or self._other.closed

    def expect(self, expected: Expected) -> None:
        self._expected = expected

    def recv(self, *, patient: bool = False) -> Message | None:
        expected = self._expected
        has_ended = self.peer in self._own.last_words  # then it sends nothing more
        letter = self._own.take(self.peer)
        if letter is None:
            if has_ended:
                raise self._ended(expected.operation)
            return None
        self._check(letter, expected)
        message = letter.message
        if letter.ready is None and self.device == CPU:
            return message
        return message._replace(tensors=handed_over(message.tensors, letter.ready, self.device))

    def _ended(self, operation: int) -> PeerClosed:
        return PeerClosed(Party(self.peer) + " has ended", party=self.peer, operation=operation)

    def _check(self, letter: _Letter, expected: Expected) -> None:
        same = (letter.kind, letter.operation) == (expected.kind, expected.operation)
        if not same or (expected.layout and letter.layout.table != expected.layout.table):
            raise desync(
                expected,
                party=self._party,
                peer=self.peer,
                kind=letter.kind,
                operation=letter.operation,
                specs=letter.layout.specs,
            )
        check_size(letter.message.size, kind=letter.kind, peer=self.peer, limits=self._limits)

    def flush(self) -> None:
        """What is sent lies on the peer's desk already."""

    def settle(self) -> None:
        """It has arrived too."""

    def check(self) -> None:
        """Nothing happens in the background."""

    def last_word(self, seconds: float = 0.0) -> LastWord | None:
        with self._own.changed:
            self._own.changed.wait_for(lambda: self.peer in self._own.last_words, seconds)
            return self._own.last_words.get(self.peer)

    def say(self, word: LastWord) -> None:
        with self._other.changed:
            self._other.last_words.setdefault(self._party, word)
            self._other.changed.notify_all()

    def release(self) -> None:
        with self._own.changed:
            self._own.closed = True
            self._own.changed.notify_all()


def memory_meshes(
    parties: int,
    *,
    limits: Limits | None = None,
    network: NetworkSetting = None,
    turn: Turn = NO_TURN,
) -> list[Mesh]:
    """One mesh for each party of this process, by rank; each is used by its own thread.

    With a `turn`, whoever waits for a message gives it up meanwhile.
    """
    ranks = range(parties)
    desks = [Desk([peer for peer in ranks if peer != rank], turn) for rank in ranks]
    net, limits = build_network(network), limits or Limits()
    return [_mesh(rank, desks, limits, net) for rank in ranks]


def _mesh(rank: int, desks: Sequence[Desk], limits: Limits, net: Network) -> Mesh:
    channels = [
        MemoryChannel(desks[rank], desk, rank, peer, limits, Wire(net.between(rank, peer)))
        for peer, desk in enumerate(desks)
        if peer != rank
    ]
    return Mesh(rank, channels, desks[rank], limits)
