"""A party's view of all the others: the rounds with which protocols talk."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import get_ident
from types import TracebackType
from typing import Self, cast

import torch
from torch import Tensor

from ..errors import ForkedUse, Party, PeerClosed, ProtocolError
from .activity import ActivityWatcher
from .channel import Channel, Expected, Message, Poller
from .fixed_round import FixedRound, fixed_round
from .lifetime import SLICE, Lifetime
from .limits import SYSTEM_CLOCK, Clock, Limits
from .open_round import OpenRound
from .tiles import PartlySent, Sendable, send_tiles, tiled_in
from .timeouts import judge
from .wire.frames import Kind, Spec, layout

_SPIN = 2e-3  # s before a stamp at which waiting becomes an exact sleep
_GLANCE = 1e-3  # s between looks at messages that were posted, while another is waited for

NOWHERE: Mapping[int, Sequence[Tensor]] = {}
Recorder = Callable[[Mapping[int, Expected], Mapping[int, Message]], None]


class Mesh(Lifetime):
    """The connected channels of one party, driven by one thread: another one is refused.

    A round is begun, which sends, and finished, which waits; `exchange` does both. Several may be
    open at once, and their messages are taken in the order in which the rounds were begun.

    `record`: what this party's program did that is public. Every message carries its digest, and
    one with another digest is a PublicMismatch at all parties; see NOTE [public mismatch].
    As a context manager it closes at the end, and aborts the run if the block raises.
    """

    def __init__(
        self,
        rank: int,
        channels: Collection[Channel],
        poller: Poller,
        limits: Limits,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(rank, channels, poller, limits, clock)
        self.recorder: Recorder | None = None  # is shown every message that arrives
        self.watcher: ActivityWatcher | None = None
        self._thread: int | None = None  # that drives this mesh
        self._process = os.getpid()
        self._next_operation = 0
        self._open: deque[OpenRound] = deque()  # begun, and not all that they receive was taken
        self._posted: deque[OpenRound] = deque()  # not begun yet; messages are taken as they come

    def number_anew(self) -> None:
        """Counts exchanges from zero again; all members do so at the same point."""
        self._next_operation = 0

    def exchange(
        self,
        send: Mapping[int, Sequence[Sendable]],
        receive: Mapping[int, Sequence[Spec]],
        *,
        operation: int | None = None,
        ahead: bool = False,
    ) -> dict[int, list[Tensor]]:
        """Sends tensors to some peers and returns what others send here, by rank. One round.

        Returns when all expected tensors are here; sends may still be in progress. A tensor that
        was sent or received must not be written to: in one process both sides share its memory. All
        parties of an exchange use the same `operation`; by default the count of exchanges so far.
        A message sent `ahead` depends on nothing that was received: it counts as no round. A
        `Tiled` tensor is computed while it is sent, before this returns.
        """
        return self.finish(self.begin(send, receive, operation=operation, ahead=ahead))

    def begin(
        self,
        send: Mapping[int, Sequence[Sendable]],
        receive: Mapping[int, Sequence[Spec]],
        *,
        operation: int | None = None,
        ahead: bool = False,
        into: Mapping[int, Sequence[Tensor]] = NOWHERE,
    ) -> OpenRound:
        """Sends what `exchange` does and returns without waiting; `finish` returns what came.

        All parties begin their rounds in the same order. Other rounds may begin in between. What
        comes over a network from the peers of `into` is read into that memory of the host, and not
        copied to a device; the tensors of others are new.
        """
        operation = self._begin(operation)
        wanted = self._wanted(receive, operation, into)
        return self._send(Kind.TENSORS, send, wanted, ahead)

    def finish(self, opened: OpenRound) -> dict[int, list[Tensor]]:
        """Waits for all tensors that a round receives, and returns them by rank."""
        tensors: dict[int, list[Tensor]] = {}
        for peer, message in self._arrived(opened).items():
            tensors[peer] = message.tensors
        return tensors

    def post(
        self,
        receive: Mapping[int, Sequence[Spec]],
        *,
        operation: int,
        into: Mapping[int, Sequence[Tensor]] = NOWHERE,
    ) -> OpenRound:
        """Takes messages that are sent ahead as they come, while this party does other things.

        `finish_posted` begins and finishes the round, in the order of these calls. Before that,
        nothing else is received from its peers. into: as of `begin`.
        """
        self.require_own_thread()
        self._require_open()
        opened = OpenRound(operation, self._wanted(receive, operation, into), self._ahead, True)
        self._posted.append(opened)
        return opened

    def finish_posted(self, opened: OpenRound) -> dict[int, list[Tensor]]:
        """Waits for all tensors of a round that was posted, and returns them by rank."""
        self._begin(opened.operation)
        if opened in self._posted:
            self._posted.remove(opened)
        self._open.append(opened)
        return self.finish(opened)

    def _take_posted(self, waiting: Collection[int] = ()) -> Collection[int]:
        """Takes what has come of posted messages, in their order, but not from those waited for.

        Returns the peers whose messages it would take next.
        """
        operation = self._operation
        while self._posted and self._posted[0].wanted.keys().isdisjoint(waiting):
            first = self._posted[0]
            self._operation = first.operation
            first.take_early()
            if len(first.early) < len(first.wanted):
                self._operation = operation
                return first.wanted
            self._posted.popleft()
        self._operation = operation
        return ()

    def _wanted(
        self,
        receive: Mapping[int, Sequence[Spec]],
        operation: int,
        into: Mapping[int, Sequence[Tensor]],
    ) -> dict[int, Expected]:
        wanted: dict[int, Expected] = {}
        digest = self.record.digest
        for peer, specs in receive.items():
            how = layout(tuple(specs))
            wanted[peer] = Expected(Kind.TENSORS, operation, how, digest, into.get(peer))
        return wanted

    def longest_fixed(self, peer: int) -> int:
        """Up to so many bytes, messages of `fixed_round` are faster than ordinary ones."""
        return self._channels[peer].longest_fixed

    def fixed_round(
        self,
        send: Mapping[int, Sequence[Tensor]],
        into: Mapping[int, Sequence[Tensor]],
        *,
        ahead: bool,
    ) -> FixedRound | None:
        """Returns a round of tensors whose memory stays, if all channels have a fast way for it."""
        channels = self._ahead if ahead else self._channels
        return fixed_round(channels, send, into, ahead=ahead)

    def begin_fixed(self, one: FixedRound, operation: int) -> None:
        """Sends what such a round sends, like `begin`; `finish_fixed` waits."""
        self.require_own_thread()
        if self._end is not None:
            self._require_open()
        self._operation = operation
        if one in self._open:  # left by a replay that has failed at all parties
            self._take_until(one)
            self._operation = operation
        digest = self.record.digest
        one.reopen(operation, digest)
        if self.watcher is not None:
            self.watcher.leave_computing()
        try:
            for peer, channel, message, size in one.outgoing:
                if self._open:
                    self._make_space(channel, message)
                channel.send_fixed(message, operation, digest)
                self.stats.count_sent(peer, size, one.ahead)
        except BaseException as error:
            self._fail(error)
        if self.watcher is not None:
            self.watcher.note_sent()
        if one.incoming:
            self._open.append(one)

    def finish_fixed(self, one: FixedRound) -> None:
        """Waits until all that such a round receives is in its memory."""
        if self._open and self._open[0] is one and self._end is None and self.recorder is None:
            self._operation = one.operation
            if self.watcher is not None:
                self.watcher.leave_computing()
            try:
                if self._posted:
                    self._take_posted()
                one.take_at_once(self._now)
            except BaseException as error:
                self._fail(error)
            if self.watcher is not None:
                self.watcher.note_waited(one.awaited)
            if one.is_complete:
                self._open.popleft()
                one.count_at_once(self.stats)
                return
        self._arrived(one)

    def exchange_bytes(
        self, send: Mapping[int, bytes], receive: Collection[int], *, operation: int | None = None
    ) -> dict[int, bytes]:
        """One round of short messages whose length the receiver does not know, such as keys."""
        operation = self._begin(operation)
        wanted = {
            peer: Expected(Kind.BYTES, operation, None, self.record.digest) for peer in receive
        }
        boxed = {peer: [_boxed(data)] for peer, data in send.items()}
        arrived = self._arrived(self._send(Kind.BYTES, boxed, wanted, False))
        return {p: message.tensors[0].cpu().numpy().tobytes() for p, message in arrived.items()}

    def compare(self) -> None:
        """Compares the public records of all parties: one round of empty messages, not counted."""
        before = self.stats.snapshot()
        peers: dict[int, list[Tensor]] = {peer: [] for peer in self._channels}
        self.exchange(peers, dict.fromkeys(peers, ()))
        self.stats.take_back(before)

    def flush(self) -> None:
        """Waits until everything sent has left this party."""
        self._require_open()
        self._await_all(channel.flush for channel in self._channels.values())

    def _await_all(self, waits: Iterable[Callable[[], None]]) -> None:
        try:
            for wait in waits:
                wait()
        except BaseException as error:
            self._fail(error)

    def close(self) -> None:
        """Waits until everything sent has arrived, says goodbye and frees all channels.

        Rounds that were begun and will not be finished are taken first: their senders wait, too.
        With `compares_ends` it also waits until all others end, and raises PublicMismatch if their
        public records differ.
        """
        if self._end is None:
            if self._open:
                self._take_until(self._open[-1])
            self.flush()
            self._await_all(channel.settle for channel in self._channels.values())
            self._part()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort(error)

    def require_own_thread(self) -> None:
        """Raises unless this is the thread of the first exchange: two would mix up their rounds.

        A forked process would draw the masks of its parent and send on its connections.
        """
        if self._process != os.getpid():
            raise ForkedUse
        if self._thread != get_ident():
            if self._thread is not None:
                raise ProtocolError(
                    "a second thread uses the session of " + Party(self.rank),
                    limit="one thread drives a party, the one that connected it",
                    remedy="make all calls on secrets in that thread",
                    party=self.rank,
                )
            self._thread = get_ident()

    def move_to_this_thread(self) -> None:
        """Lets this thread drive from now on; the one that did so until now waits meanwhile."""
        self._thread = get_ident()

    def _begin(self, operation: int | None) -> int:
        self.require_own_thread()
        if self._end is not None:
            self._require_open()
        if operation is None:
            operation = self._next_operation
            self._next_operation += 1
        self._operation = operation
        return operation

    def _send(
        self,
        kind: Kind,
        send: Mapping[int, Sequence[Sendable]],
        wanted: dict[int, Expected],
        ahead: bool,
    ) -> OpenRound:
        if self.watcher is not None:
            self.watcher.leave_computing()
        channels = self._ahead if ahead else self._channels
        opened, tiled = OpenRound(self._operation, wanted, channels, ahead), tiled_in(send)
        unfinished = []
        try:
            for peer, tensors in send.items():
                channel = channels[peer]
                if self._open:
                    self._make_space(channel, tensors)
                head = kind, opened.operation, self.record.digest
                if tiled:
                    message = PartlySent(channel, *head, tensors)
                    unfinished.append(message)
                    size = message.size
                else:
                    size = channel.send(*head, cast(Sequence[Tensor], tensors))
                if not channel.stored:
                    self.stats.count_sent(peer, size, ahead)
            if wanted:
                self._open.append(opened)
            if self.watcher is not None:
                self.watcher.note_sent()
            if tiled:
                send_tiles(tiled, unfinished, self._between_tiles)
        except BaseException as error:
            # A message may be half sent: the channels cannot be used again.
            self._fail(error)
        return opened

    def _between_tiles(self) -> None:
        """Raises if the run has ended elsewhere, and takes what has arrived; see NOTE [tiles]."""
        self.look_around()
        if self._open:
            operation, self._operation = self._operation, self._open[0].operation
            self._open[0].take_early()
            self._operation = operation

    def _make_space(self, channel: Channel, tensors: Sequence[Sendable]) -> None:
        """Takes all that open rounds receive before a send that has to wait for its peer.

        Two parties that wait for each other to take something would wait for ever.
        """
        operation = self._operation
        if not channel.has_space(sum(tensor.nbytes for tensor in tensors)):
            while self._open:
                self._take_first()
        self._operation = operation

    def _arrived(self, opened: OpenRound) -> dict[int, Message]:
        """Returns what a round receives, after what earlier rounds do, and counts its cost."""
        if not opened.wanted:
            return {}
        self.require_own_thread()
        if not opened.is_complete:
            self._require_open()
            self._take_until(opened)
        opened.count(self.stats)
        return opened.arrived

    def _take_until(self, last: OpenRound) -> None:
        """Takes what all rounds receive up to this one, which is open."""
        try:
            while not last.is_complete:
                self._take_first()
        except BaseException as error:
            # A message may be half read: the channels cannot be used again.
            self._fail(error)

    def _take_first(self) -> None:
        """Waits until everything is here that the first of the open rounds receives."""
        opened = self._open[0]
        self._operation = opened.operation
        if self.watcher is not None:
            self.watcher.leave_computing()
        opened.expect()
        last = self._receive(opened)
        if self.watcher is not None:
            self.watcher.note_waited(last)
        self._open.popleft()
        if self.recorder is not None:
            self.recorder(opened.wanted, opened.arrived)

    def _still_comes(self, channel: Channel, since: float) -> bool:
        """Whether a message of a peer that has ended is waited for.

        Its goodbye, which takes another connection, has overtaken the message.
        """
        quiet = self._now() - max(since, channel.progress)
        return channel.is_owed() and quiet <= self._limits.deadline

    def _receive(self, opened: OpenRound) -> int:
        """Takes what a round receives, and returns the peer whose message came last."""
        self._waiting_since = started = self._now() if opened.since is None else opened.since
        self._waiting = waiting = {}
        last = self.rank
        for peer in opened.wanted:
            waiting[peer] = opened.channels[peer]
        while True:
            now = self._now()
            posted = self._take_posted(waiting)
            is_only_one = len(waiting) == 1 and not posted
            for peer, channel in tuple(waiting.items()):
                has_ended = peer in self._last_words
                message = opened.early.get(peer) or channel.recv(patient=is_only_one)
                if message is None and has_ended and not self._still_comes(channel, started):
                    raise PeerClosed(Party(peer) + " has ended", party=peer)
                if message is not None:
                    if channel.wire.shaped:
                        self._hold(channel.wire.arrival(*message.stamps))
                    opened.add(peer, message, self._now() - started)
                    del waiting[peer]
                    last = peer
            if not waiting:
                opened.is_complete = True
                return last
            self._listen(waiting, _GLANCE if posted else SLICE)
            ended, limits = self._last_words, self._limits
            judge(waiting, self._channels, ended, limits, started, now, self._operation)

    def _hold(self, not_before: int) -> None:
        """Waits until a shaped link would have delivered a message."""
        while (remaining := (not_before - time.monotonic_ns()) / 1e9) > _SPIN:
            self._listen((), min(remaining - _SPIN, SLICE))
            self._waiting_since = self._now()  # this party is not stuck
        time.sleep(max(remaining, 0.0))


def _boxed(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte()
