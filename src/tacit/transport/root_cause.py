"""Who is at fault when a run ends.

NOTE [one root cause]
The first party that notices a failure names the party at fault, tells all others, and raises. A
party that is told passes it on and raises the same cause. So all parties end within the deadline
with the same cause, whichever party they were waiting for.

Silence is special: a party that waits for a frozen one sends nothing itself and is soon accused
too. But it can answer. A party that accuses another of silence, or is told so, gives it a moment to
say which party it waits for, and follows this chain to the party that does not answer. A party
without heartbeats waits for nobody and is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import (
    CheatingDetected,
    PeerClosed,
    PeerTimeout,
    ProtocolDesync,
    ProtocolError,
    PublicMismatch,
    RangeError,
    RevealForbidden,
    TransportError,
    WorkerFailed,
)
from .channel import CONNECTION_LOST, NO_HEARTBEAT, Abort, Channel, Goodbye, LastWord
from .public_record import PublicRecord

# The errors of parties that may run different programs.
OUT_OF_STEP = {kind.__name__ for kind in (PublicMismatch, ProtocolDesync, PeerTimeout)}

_ANSWER_SECONDS = 0.75  # for the answer of a party that is accused of silence
_LAST_WORD_SECONDS = (
    1.5  # for the last word of a peer whose connection is lost; its packet may be lost once
)


class PeerAborted(Exception):
    """A peer reported why the run ends. Never leaves the transport."""

    def __init__(self, word: Abort, teller: int) -> None:
        super().__init__(word.reason)
        self.word, self.teller = word, teller

    def error(self) -> PeerClosed | RevealForbidden | RangeError | CheatingDetected:
        return self.word.error(self.teller)

    def accuses(self, rank: int) -> bool:
        """Returns whether the report says that this party is silent."""
        return self.word.reason == PeerTimeout.__name__ and self.word.origin == rank


def blame(
    error: BaseException, rank: int, operation: int, record: PublicRecord | None = None
) -> Abort:
    """Returns what the party `rank` tells the others about its error.

    The record tells them whether the error may be due to programs that differ.
    """
    peer = error.party if isinstance(error, TransportError | ProtocolError) else None
    reason = kind_of(error)
    told = None
    if record is not None and record.count and reason in OUT_OF_STEP:
        told = record.excerpt(stopped=True)
    return Abort(rank if peer is None else peer, operation, reason, told)


def kind_of(error: BaseException) -> str:
    """Returns what other parties may know of an error: never its message.

    That is its class, and which workers of an enclave are at fault, if any.
    """
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, PeerClosed):
        return CONNECTION_LOST
    if isinstance(error, PeerTimeout) and not error.alive:
        return NO_HEARTBEAT
    workers = error.workers if isinstance(error, WorkerFailed | CheatingDetected) else ()
    at_fault = " and ".join(f"worker {worker}" for worker in workers)
    return f"{type(error).__name__}: {at_fault}" if at_fault else type(error).__name__


def word_of_end(
    error: BaseException, channels: Mapping[int, Channel]
) -> PeerAborted | Goodbye | None:
    """Returns the last word of a peer that has ended or whose connection is lost, if any."""
    peer = error.party if isinstance(error, PeerClosed) else None
    if peer is None or peer not in channels:
        return None
    word = _answer(channels[peer], _LAST_WORD_SECONDS)
    return PeerAborted(word, peer) if isinstance(word, Abort) else word


def _answer(channel: Channel, seconds: float) -> LastWord | None:
    """Returns a peer's last word; None if it sends none or something malformed."""
    try:
        return channel.last_word(seconds)
    except TransportError:
        return None


def follow(word: Abort, channels: Mapping[int, Channel]) -> PeerAborted | None:
    """Returns the end of a chain of silence, as reported by the last party that answered."""
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
