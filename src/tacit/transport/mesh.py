"""A party's view of all the others: the one call with which protocols talk."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from threading import get_ident
from types import TracebackType
from typing import NoReturn, Self, cast

import torch
from torch import Tensor

from ..errors import Party, PeerClosed, Phrase, ProtocolError, PublicMismatch, TransportError
from .channel import Abort, Channel, Expected, Goodbye, LastWord, Message, Peers, Poller
from .devices import CPU
from .limits import SYSTEM_CLOCK, Clock, Limits
from .local.barrier import Barrier
from .local.interpreter_lock import NO_LOCK, InterpreterLock
from .mismatch import accused, answer, differs, is_mismatch, public_mismatch
from .open_round import OpenRound
from .public_record import PublicRecord
from .root_cause import PeerAborted, blame, follow, word_of_end
from .stats import Cost, Stats
from .tiles import PartlySent, Sendable, send_tiles, tiled_in
from .timeouts import judge, silence
from .wire.frames import Kind, Spec, layout

_SLICE = 0.25  # s between looks at what happens in the background
_SPIN = 2e-3  # s before a stamp at which waiting becomes an exact sleep

Recorder = Callable[[Mapping[int, Expected], Mapping[int, Message]], None]


class Mesh:
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
        self.rank = rank
        self.parties = len(channels) + 1
        self.stats = Stats([channel.peer for channel in channels])
        self._channels = Peers((channel.peer, channel) for channel in channels)
        self._ahead = self._channels  # those of messages that are sent ahead
        for channel in channels:
            channel.look_around, channel.is_stuck = self.look_around, self._is_stuck
        self.recorder: Recorder | None = None  # is shown every message that arrives
        self.device = CPU
        self.barrier: Barrier | None = None  # of parties that are threads and share a GPU
        self.interpreter: InterpreterLock = NO_LOCK  # of parties that are threads
        self.record = PublicRecord()
        self.compares_ends = False  # whether `close` waits until all others have ended, too
        self._last_words: dict[int, LastWord | None] = {}  # of peers that have ended
        self._poller = poller
        self._limits = limits
        self._now = clock.now
        self._operation = 0
        self._next_operation = 0
        self._open: deque[OpenRound] = deque()  # begun, and not all that they receive was taken
        self._waiting: dict[int, Channel] = {}
        self._waiting_since = 0.0
        self._end: Phrase | None = None
        self._ended_by = rank
        self._thread: int | None = None  # that drives this mesh

    def place(self, device: torch.device) -> None:
        """Sets the device on which received tensors are put from now on."""
        self.device = device
        for channel in (*self._channels.values(), *self._ahead.values()):
            channel.device = device

    def channel(self, peer: int) -> Channel:
        """Returns the channel to a peer."""
        return self._channels[peer]

    def attach(self, channel: Channel) -> None:
        """Adds a peer that is not connected: its messages come from a stored run."""
        self._channels[channel.peer] = channel
        self.parties += 1
        self.stats.peers[channel.peer] = Cost()

    def attach_ahead(self, channel: Channel) -> None:
        """Lets a stored run take the place of what a connected peer sends, or is sent, ahead."""
        self._ahead = Peers({**self._ahead, channel.peer: channel})

    @property
    def deals_offline(self) -> bool:
        """Whether what a connected dealer sends ahead is that of a stored run."""
        return self._ahead is not self._channels

    @property
    def has_stored_peers(self) -> bool:
        """Whether some messages are those of a stored run: from a peer that may not be there."""
        channels = (*self._channels.values(), *self._ahead.values())
        return any(channel.stored for channel in channels)

    def number_anew(self) -> None:
        """Counts exchanges from zero again; all members do so at the same point."""
        self._next_operation = 0

    @property
    def sends_in_background(self) -> bool:
        """Whether messages are on their way while this party computes the next thing."""
        return any(channel.in_background for channel in self._channels.values())

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """The ranks of the peers whose message this party waits for now."""
        return tuple(self._waiting)

    def certificate_expires(self, peer: int) -> datetime | None:
        """Returns the end of validity of a peer's certificate; None without TLS."""
        return self._channels[peer].certificate_expires

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
    ) -> OpenRound:
        """Sends what `exchange` does and returns without waiting; `finish` returns what came.

        All parties begin their rounds in the same order. Other rounds may begin in between.
        """
        operation = self._begin(operation)
        wanted: dict[int, Expected] = {}
        for peer, specs in receive.items():
            how = layout(tuple(specs))
            wanted[peer] = Expected(Kind.TENSORS, operation, how, self.record.digest)
        return self._send(Kind.TENSORS, send, wanted, ahead)

    def finish(self, opened: OpenRound) -> dict[int, list[Tensor]]:
        """Waits for all tensors that a round receives, and returns them by rank."""
        tensors: dict[int, list[Tensor]] = {}
        for peer, message in self._arrived(opened).items():
            tensors[peer] = message.tensors
        return tensors

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
            told = self.record.excerpt(stopped=True) if self.record.count else None
            self._say(Goodbye(self.record.digest, told))
            try:
                if self.compares_ends:
                    self._compare_ends()
            finally:
                self._release("is closed", self.rank)

    def _compare_ends(self) -> None:
        """Waits for the last words of all peers that are alive, at most `patience`.

        Other failures are theirs alone. What came after the last message was revealed to nobody.
        """
        self._collect_last_words(self._limits.patience)
        if any(differs(word, self.record) for word in self._last_words.values()):
            raise public_mismatch(self.record, self.rank, self._last_words, noticed=True)

    def _collect_last_words(self, seconds: float) -> None:
        """Waits until each peer has ended, or is silent for the deadline; at most so long."""
        until = self._now() + seconds
        while self._end is None and self._now() < until:
            missing = [c for peer, c in self._channels.items() if peer not in self._last_words]
            if all(self._is_lost(channel) for channel in missing):
                return
            self._note_ends(self._poller.wait((), _SLICE))

    def _is_lost(self, channel: Channel) -> bool:
        return self._now() - channel.heard > self._limits.deadline

    def abort(self, cause: str | BaseException) -> None:
        """Ends the run at every party, best effort; they learn only the class of an exception."""
        if self._end is None:
            if isinstance(cause, str):
                word = Abort(self.rank, self._operation, cause)
            else:
                word = blame(cause, self.rank, self._operation, self.record)
            self._say(word)
            self._release(f"was aborted: {word.reason}", word.origin)

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
        """Raises unless this is the thread of the first exchange: two would mix up their rounds."""
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

    @property
    def is_open(self) -> bool:
        """Whether the run goes on: nobody has closed or aborted it here."""
        return self._end is None

    def _require_open(self) -> None:
        if self._end is not None:
            raise PeerClosed(
                "the mesh of " + Party(self.rank) + " " + self._end, party=self._ended_by
            )

    def _send(
        self,
        kind: Kind,
        send: Mapping[int, Sequence[Sendable]],
        wanted: dict[int, Expected],
        ahead: bool,
    ) -> OpenRound:
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
        opened.expect()
        self._receive(opened)
        self._open.popleft()
        if self.recorder is not None:
            self.recorder(opened.wanted, opened.arrived)

    def _receive(self, opened: OpenRound) -> None:
        self._waiting_since = started = self._now()
        self._waiting = waiting = {}
        for peer in opened.wanted:
            waiting[peer] = opened.channels[peer]
        while True:
            now = self._now()
            for peer, channel in tuple(waiting.items()):
                has_ended = peer in self._last_words  # then all that it sent is here
                message = opened.early.get(peer) or channel.recv(patient=len(waiting) == 1)
                if message is None and has_ended:
                    raise PeerClosed(Party(peer) + " has ended", party=peer)
                if message is not None:
                    if channel.wire.shaped:
                        self._hold(channel.wire.arrival(*message.stamps))
                    opened.add(peer, message, self._now() - started)
                    del waiting[peer]
            if not waiting:
                opened.is_complete = True
                return
            self._listen(waiting, _SLICE)
            ended, limits = self._last_words, self._limits
            judge(waiting, self._channels, ended, limits, started, now, self._operation)

    def _hold(self, not_before: int) -> None:
        """Waits until a shaped link would have delivered a message."""
        while (remaining := (not_before - time.monotonic_ns()) / 1e9) > _SPIN:
            self._listen((), min(remaining - _SPIN, _SLICE))
            self._waiting_since = self._now()  # this party is not stuck
        time.sleep(max(remaining, 0.0))

    def look_around(self) -> None:
        """Raises if the run has ended elsewhere."""
        self._listen((), 0.0)

    def require_running(self) -> None:
        """Raises why the run has ended, if it has; for a wait outside of an exchange."""
        self._require_open()
        try:
            self.look_around()
        except BaseException as error:
            self._fail(error)

    def _listen(self, peers: Collection[int], seconds: float) -> None:
        """Sleeps until there is news; raises the abort of a peer. A goodbye is no error."""
        ended = self._poller.wait(peers, seconds)
        self._note_ends(ended)
        for peer in ended:
            word = self._last_words[peer]
            if isinstance(word, Abort):
                raise PeerAborted(word, peer)
            if word is None:
                raise PeerClosed(Party(peer) + " is gone without a word", party=peer)
        for channel in self._channels.values():
            channel.check()

    def _note_ends(self, ended: Collection[int]) -> None:
        for peer in ended:
            self._last_words[peer] = self._channels[peer].last_word()

    def _fail(self, error: BaseException) -> NoReturn:
        """Ends the run because of `error`, and raises its root cause, which may be `error` itself.

        See NOTE [one root cause].
        """
        word = blame(error, self.rank, self._operation, self.record)
        told = error if isinstance(error, PeerAborted) else None
        try:
            last = word_of_end(error, self._channels)
            told = last if isinstance(last, PeerAborted) else told
            if not is_mismatch(error, told, last, self.record):
                error, told = self._unstuck(error, told)
                word = blame(error, self.rank, self._operation, self.record)
                word = replace(told.word, record=None) if told else word
                self._say(word)
                told = follow(word, self._channels) or told
            if is_mismatch(error, told, last, self.record):
                error, told = self._agreed_mismatch(told, accused(error, told)), None
                word = blame(error, self.rank, self._operation, self.record)
        finally:
            self._release(
                "has failed because of " + Party(word.origin) + f": {word.reason}", word.origin
            )
        if told is not None:
            raise told.error() from None
        if isinstance(error, PublicMismatch):
            raise error from None
        if isinstance(error, TransportError) and error.operation is None:
            error.operation = self._operation
        raise error

    def _unstuck(
        self, error: BaseException, told: PeerAborted | None
    ) -> tuple[BaseException, PeerAborted | None]:
        """What to raise; a party that is accused of silence names the one that it waits for."""
        if told is None or not told.accuses(self.rank) or not self._is_stuck():
            return error, told
        peer = next(iter(self._waiting))
        return silence(peer, self._now() - self._waiting_since, self._operation), None

    def _agreed_mismatch(self, told: PeerAborted | None, origin: int | None) -> PublicMismatch:
        """Tells all others what this party did, hears what they did, and returns the error."""
        at = self.rank if origin is None else origin
        self._say(answer(told, at, self._operation, self.record))
        self._collect_last_words(self._limits.deadline)
        words, noticed = self._last_words, told is None
        return public_mismatch(self.record, self.rank, words, noticed=noticed, accused=origin)

    def _is_stuck(self) -> bool:
        """Returns whether this party waits and has received nothing for long. Thread-safe."""
        waiting = tuple(self._waiting.values())
        last = max([self._waiting_since, *(channel.progress for channel in waiting)])
        return bool(waiting) and self._now() - last > self._limits.deadline / 2

    def _say(self, word: LastWord) -> None:
        for channel in self._channels.values():
            channel.say(word)

    def _release(self, end: Phrase, party: int) -> None:
        self._end, self._ended_by = end, party
        for channel in self._channels.values():
            channel.release()


def _boxed(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte()
