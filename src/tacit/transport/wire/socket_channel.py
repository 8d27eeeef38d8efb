"""A channel over two connections, one for each direction.

Tensors flow along a connection; the receiver sends heartbeats and its last word against this flow.
So these overtake all queued data and never split a message, a dead peer is noticed when one of its
connections closes, and the two directions of tensors never share a cipher state.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import time
from collections.abc import Collection, Sequence

from torch import Tensor

from ...errors import FrameRejected, Party, PeerClosed
from ..channel import Channel, Expected, LastWord, Message, Poller
from ..devices import CPU, ready_event, to_device, to_pinned
from ..limits import SYSTEM_CLOCK, Clock, Limits
from ..shaping import Wire
from .control import MAX_WORD_BYTES, beat, decode
from .frames import HEADER, MAX_TABLE_BYTES, Kind, bytes_between, layout, pack, plain
from .heartbeat import BEATS_PER_DEADLINE, Heartbeat
from .receiver import Receiver
from .sender import Sender
from .tcp import TcpStream

_MAX_READS = 1000  # at a time, of what a peer says against the flow


class SocketChannel(Channel):
    """One peer, reached over an outgoing and an incoming stream."""

    in_background = True

    def __init__(
        self,
        outgoing: TcpStream,
        incoming: TcpStream,
        *,
        party: int,
        peer: int,
        session: bytes,
        limits: Limits,
        wire: Wire,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.peer = peer
        self.outgoing, self.incoming = outgoing, incoming
        outgoing.begin_flow(sending=True)
        incoming.begin_flow(sending=False)
        self._session, self.wire = session, wire
        self._receiver = Receiver(incoming, party, peer, session, limits, clock)
        self._sender = Sender(outgoing, peer, limits, lambda: self.look_around(), clock)
        self.certificate_expires = outgoing.expires
        self._now = clock.now
        self.heard, self.stuck = self._now(), False
        self._beats = {beat(session, stuck): stuck for stuck in (False, True)}
        self._unread = b""  # of what came against the flow
        self._last_word: LastWord | None = None
        self.is_stuck = lambda: False
        self._heartbeat = Heartbeat(
            incoming,
            session,
            peer=peer,
            seconds=limits.deadline / BEATS_PER_DEADLINE,
            stuck=lambda: self.is_stuck(),
            clock=clock,
        )

    def send(self, kind: Kind, operation: int, digest: bytes, tensors: Sequence[Tensor]) -> int:
        on_way = [to_pinned(tensor) if tensor.is_cuda else plain(tensor) for tensor in tensors]
        how = layout(tuple([(tensor.shape, tensor.dtype) for tensor in on_way]))
        head = pack(kind, self._session, operation, how, how.size, self.wire.stamp(), digest)
        self._sender.send(head, on_way, len(head) + how.size, ready_event(tensors))
        return how.size

    def send_part(
        self,
        kind: Kind,
        operation: int,
        digest: bytes,
        tensors: Sequence[Tensor],
        start: int,
        end: int,
    ) -> None:
        how = layout(tuple([(tensor.shape, tensor.dtype) for tensor in tensors]))
        if not start:
            self._sender.await_space(how.size)
        kind, table = (Kind.PART, layout(())) if start else (kind, how)
        size = end - start
        head = pack(kind, self._session, operation, table, size, self.wire.stamp(), digest)
        part = bytes_between(tensors, start, end)
        self._sender.send(head, part, len(head) + size, waits=False)

    def has_space(self, size: int) -> bool:
        return self._sender.has_space(HEADER.size + MAX_TABLE_BYTES + size)

    def expect(self, expected: Expected) -> None:
        self._receiver.device = self.device
        self._receiver.expect(expected)

    def recv(self, *, patient: bool = False) -> Message | None:
        try:
            message = self._receiver.take(patient)
        except FrameRejected as error:
            raise self._rejected(error) from error
        if message is None:
            self.progress = self._receiver.progress
        elif self.device is not CPU:
            return message._replace(tensors=to_device(message.tensors, self.device))
        return message

    def in_message(self) -> bool:
        return self._receiver.in_message()

    def flush(self) -> None:
        self._sender.flush()

    def settle(self) -> None:
        self._sender.settle()

    def check(self) -> None:
        self._sender.check(self.heard)

    def has_ended(self) -> bool:
        """Returns whether the peer has sent anything but heartbeats against the flow, or closed."""
        try:
            for _ in range(_MAX_READS):
                if self._last_word is not None or not self.outgoing.readable(0.0):
                    break
                self._hear()
        except PeerClosed:
            return True
        return self._last_word is not None

    def last_word(self, seconds: float = 0.0) -> LastWord | None:
        until = time.monotonic() + seconds
        with contextlib.suppress(PeerClosed):
            for read in itertools.count():
                left = until - time.monotonic()
                if self._last_word is not None or not self.outgoing.readable(left):
                    break
                if left <= 0 and read >= _MAX_READS:  # heartbeats without end
                    break
                self._hear()
        return self._last_word

    def _hear(self) -> None:
        """Reads heartbeats and the last word, against the flow of the outgoing connection."""
        view = memoryview(bytearray(MAX_WORD_BYTES))
        count = self.outgoing.read(view)
        self._unread += bytes(view[:count])
        while (stuck := self._beats.get(self._unread[: HEADER.size])) is not None:
            self._unread = self._unread[HEADER.size :]
            self.heard, self.stuck = self._now(), stuck
        try:
            self._last_word = decode(self._unread, self._session)
        except FrameRejected as error:
            raise self._rejected(error) from error
        self.stuck = self.stuck or self._last_word is not None  # it sends nothing more

    def _rejected(self, error: FrameRejected) -> FrameRejected:
        return FrameRejected(Party(self.peer) + f" sent no message: {error}", party=self.peer)

    def say(self, word: LastWord) -> None:
        self._heartbeat.say(word)

    def release(self) -> None:
        self._heartbeat.stop()
        self._sender.stop()
        self.outgoing.close()
        self.incoming.close()


class SocketPoller(Poller):
    """Sleeps on the sockets of all channels: data from some peers, the end of any."""

    def __init__(self, channels: Collection[SocketChannel]) -> None:
        self._channels = {channel.peer: channel for channel in channels}
        self._ends = {channel.outgoing.fileno(): channel.peer for channel in channels}
        self._polls: dict[tuple[int, ...], select.poll] = {}

    def wait(self, peers: Collection[int], seconds: float) -> Collection[int]:
        poll = self._poll(tuple(peers))
        held = [fd for fd, p in self._ends.items() if self._channels[p].outgoing.holds_bytes()]
        ended = []
        for fd in (*held, *(fd for fd, _ in poll.poll(0 if held else seconds * 1e3))):
            if fd in self._ends and self._channels[self._ends[fd]].has_ended():
                ended.append(self._ends.pop(fd))
        if ended:
            self._polls.clear()
        return ended

    def _poll(self, peers: tuple[int, ...]) -> select.poll:
        if peers not in self._polls:
            poll = self._polls[peers] = select.poll()
            for fd in self._ends:
                poll.register(fd, select.POLLIN)
            for peer in peers:
                poll.register(self._channels[peer].incoming.fileno(), select.POLLIN)
        return self._polls[peers]
