"""A party's view of all the others: the one call with which protocols talk."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from threading import get_ident
from types import TracebackType
from typing import NoReturn, Self

import torch
from torch import Tensor

from ..errors import Party, PeerClosed, Phrase, ProtocolError, TransportError
from .channel import Abort, Channel, Expected, Goodbye, LastWord, Message, Peers, Poller
from .devices import CPU
from .limits import SYSTEM_CLOCK, Clock, Limits
from .local.barrier import Barrier
from .root_cause import PeerAborted, blame, follow, reason_of_end
from .stats import Stats
from .timeouts import judge, silence
from .wire.frames import Kind, Spec, layout

_SLICE = 0.25  # s between looks at what happens in the background
_SPIN = 2e-3  # s before a stamp at which waiting becomes an exact sleep


class Mesh:
    """The connected channels of one party, driven by one thread: another one is refused.

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
        for channel in channels:
            channel.look_around, channel.is_stuck = self.look_around, self._is_stuck
        self.device = CPU
        self.barrier: Barrier | None = None  # of parties that are threads and share a GPU
        self._poller = poller
        self._limits = limits
        self._now = clock.now
        self._operation = 0
        self._next_operation = 0
        self._waiting: dict[int, Channel] = {}
        self._waiting_since = 0.0
        self._end: Phrase | None = None
        self._ended_by = rank
        self._thread: int | None = None  # that drives this mesh

    def place(self, device: torch.device) -> None:
        """Sets the device on which received tensors are put from now on."""
        self.device = device
        for channel in self._channels.values():
            channel.device = device

    def channel(self, peer: int) -> Channel:
        """Returns the channel to a peer."""
        return self._channels[peer]

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """The ranks of the peers whose message this party waits for now."""
        return tuple(self._waiting)

    def certificate_expires(self, peer: int) -> datetime | None:
        """Returns the end of validity of a peer's certificate; None without TLS."""
        return self._channels[peer].certificate_expires

    def exchange(
        self,
        send: Mapping[int, Sequence[Tensor]],
        receive: Mapping[int, Sequence[Spec]],
        *,
        operation: int | None = None,
        ahead: bool = False,
    ) -> dict[int, list[Tensor]]:
        """Sends tensors to some peers and returns what others send here, by rank. One round.

        Returns when all expected tensors are here; sends may still be in progress. A tensor that
        was sent or received must not be written to: in one process both sides share its memory. All
        parties of an exchange use the same `operation`; by default the count of exchanges so far.
        A message sent `ahead` depends on nothing that was received: it counts as no round.
        """
        operation = self._begin(operation)
        wanted: dict[int, Expected] = {}
        for peer, specs in receive.items():
            wanted[peer] = Expected(Kind.TENSORS, operation, layout(tuple(specs)))
        tensors: dict[int, list[Tensor]] = {}
        for peer, message in self._exchange(Kind.TENSORS, send, wanted, ahead).items():
            tensors[peer] = message.tensors
        return tensors

    def exchange_bytes(
        self, send: Mapping[int, bytes], receive: Collection[int], *, operation: int | None = None
    ) -> dict[int, bytes]:
        """One round of short messages whose length the receiver does not know, such as keys."""
        operation = self._begin(operation)
        wanted = {peer: Expected(Kind.BYTES, operation, None) for peer in receive}
        boxed = {peer: [_boxed(data)] for peer, data in send.items()}
        arrived = self._exchange(Kind.BYTES, boxed, wanted, False)
        return {p: message.tensors[0].cpu().numpy().tobytes() for p, message in arrived.items()}

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
        """Waits until everything sent has arrived, says goodbye and frees all channels."""
        if self._end is None:
            self.flush()
            self._await_all(channel.settle for channel in self._channels.values())
            self._say(Goodbye())
            self._release("is closed", self.rank)

    def abort(self, cause: str | BaseException) -> None:
        """Ends the run at every party, best effort; they learn only the class of an exception."""
        if self._end is None:
            if isinstance(cause, str):
                word = Abort(self.rank, self._operation, cause)
            else:
                word = blame(cause, self.rank, self._operation)
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

    def _begin(self, operation: int | None) -> int:
        self.require_own_thread()
        if self._end is not None:
            self._require_open()
        if operation is None:
            operation = self._next_operation
            self._next_operation += 1
        self._operation = operation
        return operation

    def _require_open(self) -> None:
        if self._end is not None:
            raise PeerClosed(
                "the mesh of " + Party(self.rank) + " " + self._end, party=self._ended_by
            )

    def _exchange(
        self,
        kind: Kind,
        send: Mapping[int, Sequence[Tensor]],
        wanted: dict[int, Expected],
        ahead: bool,
    ) -> dict[int, Message]:
        try:
            for peer, tensors in send.items():
                size = self._channels[peer].send(kind, self._operation, tensors)
                self.stats.count_sent(peer, size, ahead)
            for peer, expected in wanted.items():
                self._channels[peer].expect(expected)
            return self._receive(wanted, ahead) if wanted else {}
        except BaseException as error:
            # A message may be half read or half sent: the channels cannot be used again.
            self._fail(error)

    def _receive(self, peers: Collection[int], ahead: bool) -> dict[int, Message]:
        arrived: dict[int, Message] = {}
        self._waiting_since = started = self._now()
        self._waiting = waiting = {}
        for peer in peers:
            waiting[peer] = self._channels[peer]
        seconds = 0.0
        while True:
            now = self._now()
            for peer, channel in tuple(waiting.items()):
                message = channel.recv(patient=len(waiting) == 1)
                if message is not None:
                    if channel.wire.shaped:
                        self._hold(channel.wire.arrival(message.sent_at, message.size))
                    arrived[peer] = message
                    del waiting[peer]
                    seconds = self._now() - started
                    self.stats.count_received(peer, message.size, seconds, ahead)
            if not waiting:
                self.stats.count_round(seconds, ahead)
                return arrived
            self._listen(waiting, _SLICE)
            judge(waiting, self._channels, self._limits, started, now, self._operation)

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
        for peer in self._poller.wait(peers, seconds):
            word = self._channels[peer].last_word()
            if isinstance(word, Abort):
                raise PeerAborted(word, peer)
            if word is None:
                raise PeerClosed(Party(peer) + " is gone without a word", party=peer)
        for channel in self._channels.values():
            channel.check()

    def _fail(self, error: BaseException) -> NoReturn:
        """Ends the run because of `error`, and raises its root cause, which may be `error` itself.

        See NOTE [one root cause].
        """
        word = blame(error, self.rank, self._operation)
        told = error if isinstance(error, PeerAborted) else None
        try:
            told = told or reason_of_end(error, self._channels)
            if told is not None and told.accuses(self.rank) and self._is_stuck():
                peer = next(iter(self._waiting))
                error, told = (
                    silence(peer, self._now() - self._waiting_since, self._operation),
                    None,
                )
            word = told.word if told else blame(error, self.rank, self._operation)
            self._say(word)
            told = follow(word, self._channels) or told
        finally:
            self._release(
                "has failed because of " + Party(word.origin) + f": {word.reason}", word.origin
            )
        if told is not None:
            raise told.error() from None
        if isinstance(error, TransportError) and error.operation is None:
            error.operation = self._operation
        raise error

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
