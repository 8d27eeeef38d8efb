"""Whether a run goes on, and how it ends: all parties hear of it, and agree on its cause."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NoReturn

from ..errors import Party, PeerClosed, Phrase, PublicMismatch, TransportError
from .channel import Abort, Channel, Goodbye, LastWord, Poller
from .connections import Connections
from .limits import Clock, Limits
from .mismatch import accused, answer, differs, is_mismatch, public_mismatch
from .public_record import PublicRecord
from .root_cause import PeerAborted, blame, follow, word_of_end
from .timeouts import silence

SLICE = 0.25  # s between looks at what happens in the background


class Lifetime(Connections):
    """A party's part in a run until its end.

    record: what this party's program did that is public. compares_ends: whether a party that ends
    waits until all others have ended, too.
    """

    def __init__(
        self,
        rank: int,
        channels: Collection[Channel],
        poller: Poller,
        limits: Limits,
        clock: Clock,
    ) -> None:
        super().__init__(rank, channels, poller, limits)
        for channel in channels:
            channel.look_around, channel.is_stuck = self.look_around, self._is_stuck
        self.record = PublicRecord()
        self.compares_ends = False
        self._now = clock.now
        self._last_words: dict[int, LastWord | None] = {}  # of peers that have ended
        self._operation = 0  # that runs
        self._waiting: dict[int, Channel] = {}
        self._waiting_since = 0.0
        self._end: Phrase | None = None
        self._ended_by = rank

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """The ranks of the peers whose message this party waits for now."""
        return tuple(self._waiting)

    @property
    def is_open(self) -> bool:
        """Whether the run goes on: nobody has closed or aborted it here."""
        return self._end is None

    def _require_open(self) -> None:
        if self._end is not None:
            raise PeerClosed(
                "the mesh of " + Party(self.rank) + " " + self._end, party=self._ended_by
            )

    def require_running(self) -> None:
        """Raises why the run has ended, if it has; for a wait outside of an exchange."""
        self._require_open()
        try:
            self.look_around()
        except BaseException as error:
            self._fail(error)

    def look_around(self) -> None:
        """Raises if the run has ended elsewhere."""
        self._listen((), 0.0)

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

    def _part(self) -> None:
        """Says goodbye, compares the ends of all parties if that is wanted, frees all channels."""
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
            self._note_ends(self._poller.wait((), SLICE))

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
