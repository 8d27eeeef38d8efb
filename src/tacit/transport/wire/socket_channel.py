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
from ..channel import Channel, Expected, Goodbye, LastWord, Message, Poller
from ..device_copies import sends_in_parts, to_pinned_parts
from ..devices import CPU, ReadyEvent, ready_event, to_device, to_pinned
from ..limits import SYSTEM_CLOCK, Clock, Limits
from ..shaping import Wire
from .control import MAX_WORD_BYTES, beat, decode
from .fixed_message import FixedTensors, FramedTensors
from .frames import (
    HEADER,
    MAX_TABLE_BYTES,
    NO_DIGEST,
    SHORT_BYTES,
    Kind,
    Layout,
    bytes_between,
    layout,
    pack,
    pack_striped,
    plain,
)
from .heartbeat import BEATS_PER_DEADLINE, Heartbeat
from .receiver import Receiver
from .sender import Sender
from .stripes import MOST_COPIED, IncomingStripes, OutgoingStripes, StripedTensors, num_slices
from .tcp import TcpStream

_MAX_READS = 1000  # at a time, of what a peer says against the flow


class SocketChannel(Channel):
    """One peer, reached over an outgoing and an incoming stream; large messages over stripes.

    stripes: further streams for each direction, outgoing and incoming; see NOTE [stripes].
    """

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
        stripes: tuple[Sequence[TcpStream], Sequence[TcpStream]] = ((), ()),
    ) -> None:
        self.peer = peer
        self.outgoing, self.incoming = outgoing, incoming
        for stream in (outgoing, *stripes[0]):
            stream.begin_flow(sending=True)
        for stream in (incoming, *stripes[1]):
            stream.begin_flow(sending=False)
        self._session, self._limits, self.wire = session, limits, wire
        self._out = OutgoingStripes(stripes[0], session, peer) if stripes[0] else None
        self._in = IncomingStripes(stripes[1], session, peer) if stripes[1] else None
        self._receiver = Receiver(incoming, party, peer, session, limits, clock, self._in)
        look_around = lambda: self.look_around()  # noqa: E731
        self._sender = Sender(outgoing, peer, limits, look_around, clock, self._out)
        self.certificate_expires = outgoing.expires
        self._now = clock.now
        self.heard, self.stuck = self._now(), False
        self._beats = {beat(session, stuck): stuck for stuck in (False, True)}
        self._unread = b""  # of what came against the flow
        self._last_word: LastWord | None = None
        self._sent = self._received = 0  # messages
        self.is_stuck = lambda: False
        self._heartbeat = Heartbeat(
            incoming,
            session,
            peer=peer,
            seconds=limits.deadline / BEATS_PER_DEADLINE,
            stuck=lambda: self.is_stuck(),
            clock=clock,
        )

    @property
    def longest_fixed(self) -> int:
        is_striped = self._out is not None and self._out.can_pass(len(self._out), 0)
        return MOST_COPIED if is_striped and not self.wire.shaped else super().longest_fixed

    def fixed(self, tensors: Sequence[Tensor]) -> FixedTensors | None:
        how = layout(tuple([(x.shape, x.dtype) for x in tensors]))
        head = pack(Kind.TENSORS, self._session, 0, how, how.size)
        stays = all(x.is_cpu and x.is_contiguous() for x in tensors)
        if not stays or self.wire.shaped or how.size > self._limits.max_message_bytes:
            return None
        if len(head) + how.size > SHORT_BYTES:
            return self._striped(tensors, how)
        message = self.outgoing.message(head, tensors)
        return None if message is None else FramedTensors(tensors, how, message)

    def _striped(self, tensors: Sequence[Tensor], how: Layout) -> StripedTensors | None:
        """Returns a message that goes over the stripes; None if it would not."""
        count = 0 if self._out is None else num_slices(how.size, len(self._out))
        if not count or how.size > MOST_COPIED:
            return None
        heads = self._head(Kind.TENSORS, 0, NO_DIGEST, how, how.size, count)
        message = self.outgoing.message(heads, (), (0, len(heads) - HEADER.size))
        return None if message is None else StripedTensors(tensors, how, message, count)

    def send(self, kind: Kind, operation: int, digest: bytes, tensors: Sequence[Tensor]) -> int:
        if tensors and tensors[0].is_cuda and sends_in_parts(tensors):
            return self._send_copies(kind, operation, digest, tensors)
        self._sent += 1
        on_way = [to_pinned(tensor) if tensor.is_cuda else plain(tensor) for tensor in tensors]
        how = layout(tuple([(tensor.shape, tensor.dtype) for tensor in on_way]))
        count = 0 if self._out is None else num_slices(how.size, len(self._out))
        if count:
            head = self._head(kind, operation, digest, how, how.size, count)
        else:
            head = pack(kind, self._session, operation, how, how.size, self.wire.stamp(), digest)
        size = len(head) + how.size
        self._sender.send(head, on_way, size, ready_event(tensors), striped=count > 0)
        return how.size

    def send_fixed(self, message: FixedTensors, operation: int, digest: bytes) -> None:
        self._sent += 1
        if isinstance(message, StripedTensors):
            self._sender.send_striped(message, operation, digest)
            return
        assert isinstance(message, FramedTensors)  # `fixed` has made it
        self._sender.send_message(message.message, operation, digest)

    def receive_fixed(self, message: FixedTensors, operation: int, digest: bytes) -> bool:
        try:
            if isinstance(message, StripedTensors):
                is_here = self._receiver.take_striped(message, operation, digest)
            else:
                assert isinstance(message, FramedTensors)  # `fixed` has made it
                is_here = self._receiver.take_fixed(message.message, operation, digest)
        except FrameRejected as error:
            raise self._rejected(error) from error
        self._received += is_here
        return is_here

    def _send_copies(
        self, kind: Kind, operation: int, digest: bytes, tensors: Sequence[Tensor]
    ) -> int:
        """Queues a large message of a GPU in parts, each of which leaves when it is copied."""
        copies, parts = to_pinned_parts(tensors)
        for start, end, ready in parts:
            self.send_part(kind, operation, digest, copies, start, end, ready)
        return parts[-1].end

    def _head(
        self, kind: Kind, operation: int, digest: bytes, how: Layout | None, size: int, count: int
    ) -> bytes:
        """The head of a message or, without its layout, of a part; `count` slices are striped."""
        stamp, session = self.wire.stamp(), self._session
        if not count:
            kind, table = (Kind.PART, layout(())) if how is None else (kind, how)
            return pack(kind, session, operation, table, size, stamp, digest)
        begin = b"" if how is None else pack(kind, session, operation, how, 0, stamp, digest)
        return begin + pack_striped(session, operation, count, size, stamp, digest)

    def send_part(
        self,
        kind: Kind,
        operation: int,
        digest: bytes,
        tensors: Sequence[Tensor],
        start: int,
        end: int,
        ready: ReadyEvent | None = None,
    ) -> None:
        how = layout(tuple([(tensor.shape, tensor.dtype) for tensor in tensors]))
        if not start:
            self._sent += 1
            self._sender.await_space(how.size)
        size = end - start
        count = 0 if self._out is None else num_slices(size, len(self._out))
        head = self._head(kind, operation, digest, None if start else how, size, count)
        part = bytes_between(tensors, start, end)
        self._sender.send(head, part, len(head) + size, ready, waits=False, striped=count > 0)

    def has_space(self, size: int) -> bool:
        return self._sender.has_space(HEADER.size + MAX_TABLE_BYTES + size)

    def expect(self, expected: Expected) -> None:
        self._receiver.device = self.device if expected.into is None else CPU
        self._receiver.expect(expected)

    def recv(self, *, patient: bool = False) -> Message | None:
        try:
            message = self._receiver.take(patient)
        except FrameRejected as error:
            raise self._rejected(error) from error
        self._received += message is not None
        if message is None:
            self.progress = self._receiver.progress
        elif self._receiver.device is not CPU:
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
        if isinstance(word, Goodbye):
            word = word._replace(sent=self._sent)
        self._heartbeat.say(word)

    def is_owed(self) -> bool:
        word = self._last_word
        return isinstance(word, Goodbye) and self._received < word.sent

    def signals(self) -> list[int]:
        """File descriptors that are readable when something of a message is here."""
        return [one.fileno() for one in (self.incoming, self._in) if one is not None]

    def release(self) -> None:
        self._heartbeat.stop()
        for stripes in (self._out, self._in):
            if stripes is not None:
                stripes.stop()
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
                for fd in self._channels[peer].signals():
                    poll.register(fd, select.POLLIN)
        return self._polls[peers]
