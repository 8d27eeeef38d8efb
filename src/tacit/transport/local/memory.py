"""Channels between threads of one process: tensors are handed over without a copy."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from torch import Tensor

from ...errors import Party, PeerClosed
from ..channel import (
    LOOK_AROUND_SECONDS,
    Channel,
    Expected,
    LastWord,
    Message,
    Poller,
    check_digest,
    check_size,
    desync,
)
from ..devices import CPU, ReadyEvent, from_thread, ready_event
from ..limits import SYSTEM_CLOCK, Clock, Limits
from ..mesh import Mesh
from ..shaping import Network, NetworkSetting, Wire
from ..shaping import network as build_network
from ..timeouts import stalled
from ..wire.fixed_message import FixedTensors
from ..wire.frames import Kind, Layout, layout
from .fixed_copies import CopiedTensors, Copies, copy_all
from .interpreter_lock import NO_LOCK, InterpreterLock

_PATIENCE = 0.05  # s that a fixed message is waited for before other news is looked at


class _Head(NamedTuple):
    kind: Kind
    operation: int
    digest: bytes
    layout: Layout


class _Envelope(NamedTuple):
    head: _Head
    message: Message
    ready: ReadyEvent | None


class Mailbox(Poller):
    """The messages that one party was sent and has not taken, by sender, under one lock."""

    def __init__(self, peers: Collection[int], interpreter: InterpreterLock = NO_LOCK) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.waiting = 0  # threads that wait for a change
        self.interpreter = interpreter
        self.envelopes: dict[int, deque[_Envelope]] = {peer: deque() for peer in peers}
        self.queued = dict.fromkeys(peers, 0)  # bytes
        self.last_words: dict[int, LastWord] = {}
        self.closed = False
        self.is_stuck: Callable[[], bool] = lambda: False  # whether its party is, thread-safe
        self._reported: set[int] = set()  # peers whose end `wait` has returned

    def wait(self, peers: Collection[int], seconds: float) -> Collection[int]:
        with self.lock:
            if not self._has_news(peers):
                self.await_change(self.interpreter, lambda: self._has_news(peers), seconds)
            if not self.last_words:
                return ()
            ended = self.last_words.keys() - self._reported
            self._reported |= ended
            return ended

    def await_change(
        self, interpreter: InterpreterLock, condition: Callable[[], bool], seconds: float
    ) -> None:
        """Waits for a condition, without the interpreter lock. The caller holds `self.lock`."""
        interpreter.release()
        self.waiting += 1
        self.changed.wait_for(condition, seconds)
        self.waiting -= 1
        self.changed.release()  # nobody waits for the interpreter lock while holding the mailbox
        try:
            interpreter.acquire()
        finally:
            self.changed.acquire()

    def _has_news(self, peers: Collection[int]) -> bool:
        ended = self.last_words
        for peer in peers:
            if self.envelopes[peer] or peer in ended:
                return True
        return bool(ended) and bool(ended.keys() - self._reported)

    def put(self, party: int, envelope: _Envelope) -> None:
        """Adds a message from a party, and wakes the threads that wait for one."""
        with self.lock:
            self.envelopes[party].append(envelope)
            self.queued[party] += envelope.message.size
            if self.waiting:
                self.changed.notify_all()

    def take(self, peer: int) -> _Envelope | None:
        """Removes and returns the next message from a peer; None if there is none."""
        with self.lock:
            if not self.envelopes[peer]:
                return None
            envelope = self.envelopes[peer].popleft()
            self.queued[peer] -= envelope.message.size
            if self.waiting:
                self.changed.notify_all()
            return envelope

    def take_soon(self, peer: int, head: _Head) -> _Envelope | None:
        """As `take`, after a short wait, if the next message has this head and can be read now."""
        queue = self.envelopes[peer]
        with self.lock:
            if not queue:
                self.await_change(
                    self.interpreter, lambda: bool(queue) or peer in self.last_words, _PATIENCE
                )
            if not queue or queue[0].head != head or queue[0].ready is not None:
                return None
            return self.take(peer)


class MemoryChannel(Channel):
    """One end of a pair of mailboxes. Received tensors share memory with the sender's."""

    shares_memory = True

    def __init__(
        self,
        own: Mailbox,
        other: Mailbox,
        *,
        party: int,
        peer: int,
        limits: Limits,
        wire: Wire,
        clock: Clock,
    ) -> None:
        self.peer = peer
        self._own, self._other, self._party = own, other, party
        self._limits, self.wire, self._clock = limits, wire, clock
        self.in_background = wire.shaped
        self._stamps: list[tuple[int, int]] = []  # of the parts of an unfinished message

    @property
    def heard(self) -> float:  # type: ignore[override]
        """The present: a thread that has not ended is alive."""
        return self._clock.now()

    @property
    def stuck(self) -> bool:  # type: ignore[override]
        """Whether the peer's thread waits and receives nothing, or has ended; and sent nothing.

        A peer may send its last message and end after this party has looked for a message.
        """
        if self._own.envelopes[self.peer]:
            return False
        return self._other.closed or self._other.is_stuck()

    @property
    def is_stuck(self) -> Callable[[], bool]:
        """Whether this party is stuck; its peers ask."""
        return self._own.is_stuck

    @is_stuck.setter
    def is_stuck(self, is_stuck: Callable[[], bool]) -> None:
        self._own.is_stuck = is_stuck

    def fixed(self, tensors: Sequence[Tensor]) -> FixedTensors | None:
        how = layout(tuple([(x.shape, x.dtype) for x in tensors]))
        stays = all(x.is_cpu and x.is_contiguous() for x in tensors)
        if not stays or self.wire.shaped or how.size > self._limits.max_message_bytes:
            return None
        return CopiedTensors(tensors, how)

    def send(self, kind: Kind, operation: int, digest: bytes, tensors: Sequence[Tensor]) -> int:
        how = layout(tuple([(tensor.shape, tensor.dtype) for tensor in tensors]))
        message = Message(list(tensors), how.size, self._stamped(how.size))
        self._put(_Envelope(_Head(kind, operation, digest, how), message, ready_event(tensors)))
        return how.size

    def send_fixed(self, message: FixedTensors, operation: int, digest: bytes) -> None:
        assert isinstance(message, CopiedTensors)  # `fixed` has made it
        head = _Head(Kind.TENSORS, operation, digest, message.layout)
        self._put(_Envelope(head, Message(message.copies(), message.layout.size), None))

    def _put(self, envelope: _Envelope) -> None:
        size = envelope.message.size
        if self._other.closed or not self.has_space(size):
            self._await_space(size, envelope.head.operation)
        self._other.put(self._party, envelope)

    def send_part(
        self,
        kind: Kind,
        operation: int,
        digest: bytes,
        tensors: Sequence[Tensor],
        start: int,
        end: int,
    ) -> None:
        """Hands the message over with its last part; on a shaped link each part has its stamp."""
        if end == sum(tensor.nbytes for tensor in tensors):
            self.send(kind, operation, digest, tensors)
        else:
            self._stamps.append((self.wire.stamp(), end - start))

    def _stamped(self, size: int) -> tuple[tuple[int, int], ...]:
        """The stamps of a message of so many bytes, whose last part is sent now."""
        if not self.wire.shaped:
            return ()
        last = self.wire.stamp(), size - sum(part for _, part in self._stamps)
        stamps, self._stamps = (*self._stamps, last), []
        return stamps

    def _await_space(self, size: int, operation: int) -> None:
        since = self._clock.now()
        while not self.has_space(size):
            now = self._clock.now()
            if error := stalled(self.peer, since, now, now, self._limits):
                error.operation = operation
                raise error
            with self._other.changed:
                self._other.await_change(
                    self._own.interpreter, lambda: self.has_space(size), LOOK_AROUND_SECONDS
                )
            self.look_around()
        if self._other.closed:
            raise self._ended(operation)

    def has_space(self, size: int) -> bool:
        queued = self._other.queued[self._party]
        fits = not queued or queued + size <= self._limits.max_queued_bytes
        return fits or self._other.closed

    def expect(self, expected: Expected) -> None:
        self._expected = expected

    def receive_fixed(self, message: FixedTensors, operation: int, digest: bytes) -> bool:
        head = _Head(Kind.TENSORS, operation, digest, message.layout)
        envelope = self._own.take_soon(self.peer, head)
        if envelope is None:
            return False
        copy_all(message, envelope.message.tensors)
        return True

    def recv(self, *, patient: bool = False) -> Message | None:
        expected = self._expected
        has_ended = self.peer in self._own.last_words  # then it sends nothing more
        envelope = self._own.take(self.peer)
        if envelope is None:
            if has_ended:
                raise self._ended(expected.operation)
            return None
        self._check(envelope, expected)
        message = envelope.message
        if envelope.ready is not None or self.device != CPU:
            tensors = from_thread(message.tensors, envelope.ready, self.device)
            message = message._replace(tensors=tensors)
        if expected.into is not None:
            copy_all(expected.into, message.tensors)
            return message._replace(tensors=[*expected.into])
        if isinstance(message.tensors, Copies):
            return message._replace(tensors=[x.clone() for x in message.tensors])
        return message

    def _ended(self, operation: int) -> PeerClosed:
        return PeerClosed(Party(self.peer) + " has ended", party=self.peer, operation=operation)

    def _check(self, envelope: _Envelope, expected: Expected) -> None:
        kind, operation, digest, how = envelope.head
        check_digest(digest, expected, peer=self.peer)
        same = (kind, operation) == (expected.kind, expected.operation)
        if not same or (expected.layout and how.table != expected.layout.table):
            raise desync(
                expected,
                party=self._party,
                peer=self.peer,
                kind=kind,
                operation=operation,
                specs=how.specs,
            )
        check_size(how.size, kind=kind, peer=self.peer, limits=self._limits)

    def flush(self) -> None:
        """Returns at once: a message that was sent is in the peer's mailbox."""

    def settle(self) -> None:
        """Returns at once: a message that was sent has arrived."""

    def check(self) -> None:
        """Returns at once: there is no background thread that could fail."""

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
    interpreter: InterpreterLock = NO_LOCK,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Mesh]:
    """Returns a mesh for each party of this process, by rank; each is used by its own thread.

    A party that waits for a message releases the `interpreter` lock meanwhile.
    """
    ranks = range(parties)
    mailboxes = [Mailbox([peer for peer in ranks if peer != rank], interpreter) for rank in ranks]
    net, limits = build_network(network), limits or Limits()
    return [_mesh(rank, mailboxes, limits, net, clock) for rank in ranks]


def _mesh(
    rank: int, mailboxes: Sequence[Mailbox], limits: Limits, net: Network, clock: Clock
) -> Mesh:
    channels = [
        MemoryChannel(
            mailboxes[rank],
            mailbox,
            party=rank,
            peer=peer,
            limits=limits,
            wire=Wire(net.between(rank, peer)),
            clock=clock,
        )
        for peer, mailbox in enumerate(mailboxes)
        if peer != rank
    ]
    mesh = Mesh(rank, channels, mailboxes[rank], limits, clock)
    mesh.interpreter = mailboxes[rank].interpreter
    return mesh
