"""Who is at fault when a run ends.

NOTE [one root cause]
Whatever fails, the party that notices first names the party at fault and tells everybody, then
raises. A party that is told passes it on and raises the same cause. So all parties end, within the
deadline, with the same story, whichever of them they were waiting for.

Silence is special: a party that waits for a frozen one is silent itself, and is soon accused too.
But it can answer. Who accuses a party of silence, or hears of it, gives it a moment to say for whom
it waits, and follows that chain to the party that does not answer. One that sends no heartbeat does
not wait for anybody, and is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import PeerClosed, PeerTimeout, ProtocolError, RevealForbidden, TransportError
from .channel import CONNECTION_LOST, NO_HEARTBEAT, Abort, Channel, LastWord

_ANSWER_SECONDS = 0.75  # of one that is accused of silence
_LAST_WORD_SECONDS = 1.5  # of one whose connection is lost: it may be lost on its way, once


class PeerAborted(Exception):
    """A peer says why the run ends. Never leaves the transport."""

    def __init__(self, word: Abort, teller: int) -> None:
        super().__init__(word.reason)
        self.word, self.teller = word, teller

    def error(self) -> PeerClosed | RevealForbidden:
        return self.word.error(self.teller)

    def accuses(self, rank: int) -> bool:
        """Whether a party is said to be silent."""
        return self.word.reason == PeerTimeout.__name__ and self.word.origin == rank


def blame(error: BaseException, rank: int, operation: int) -> Abort:
    """What the party `rank` tells the others about its own error."""
    peer = error.party if isinstance(error, TransportError | ProtocolError) else None
    return Abort(rank if peer is None else peer, operation, kind_of(error))


def kind_of(error: BaseException) -> str:
    """What the others may know of an error: never its message."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, PeerClosed):
        return CONNECTION_LOST
    if isinstance(error, PeerTimeout) and not error.alive:
        return NO_HEARTBEAT
    return type(error).__name__


def reason_of_end(error: BaseException, channels: Mapping[int, Channel]) -> PeerAborted | None:
    """What a peer whose connection is lost had to say about it, if anything."""
    peer = error.party if isinstance(error, PeerClosed) else None
    if peer is None or peer not in channels:
        return None
    word = _answer(channels[peer], _LAST_WORD_SECONDS)
    return PeerAborted(word, peer) if isinstance(word, Abort) else None


def _answer(channel: Channel, seconds: float) -> LastWord | None:
    """What a peer says now; rubbish is no answer."""
    try:
        return channel.last_word(seconds)
    except TransportError:
        return None


def follow(word: Abort, channels: Mapping[int, Channel]) -> PeerAborted | None:
    """The end of a chain of silence, as told by the last party that answered."""
    told: PeerAborted | None = None
    heard: set[int] = set()
    while word.reason == PeerTimeout.__name__ and word.origin in channels.keys() - heard:
        accused = word.origin
        heard.add(accused)
        answer = _answer(channels[accused], _ANSWER_SECONDS)
        if not isinstance(answer, Abort) or answer.origin == accused:
            break
        told, word = PeerAborted(answer, accused), answer
    return told
