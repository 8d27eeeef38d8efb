"""What one party spends, operation by operation: time, rounds and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from time import thread_time
from typing import Any, NamedTuple

from ...transport import Stats


class Spent(NamedTuple):
    """The cost of one operation, or of what lies between two, at one party.

    seconds: of the party's threads on a processor. What other parties compute does not count, and
    waiting neither. received: bytes from each peer in rounds; ahead: those that were sent
    ahead.
    """

    where: str
    seconds: float
    rounds: int
    bytes_sent: int
    received: dict[int, int]
    ahead: dict[int, int]


class _Reading(NamedTuple):
    seconds: float
    rounds: int
    bytes_sent: int
    bytes_received: int


class Meter:
    """Records what a party spends. Parties that run the same program make records alike.

    outside: what the time between two operations belongs to. overhead: seconds of the rehearsal
    itself, which are nobody's. The meter is made and read in the thread of its party.
    elsewhere: seconds of the party's other threads.
    """

    def __init__(self, stats: Stats, outside: str) -> None:
        self._stats, self.outside = stats, outside
        self.overhead = self.elsewhere = 0.0
        self._thread = get_ident()
        self.records: list[Spent] = []
        self._last = _Reading(0.0, 0, 0, 0)
        self._peers = dict.fromkeys(stats.peers, (0, 0))  # bytes received, and sent ahead

    def read(self, where: str | None = None) -> None:
        """Records what was spent since the last reading, as that of a place."""
        stats, last = self._stats, self._last
        seconds = thread_time() + self.elsewhere - self.overhead
        now = _Reading(seconds, stats.rounds, stats.bytes_sent, stats.bytes_received)
        received: dict[int, int] = {}
        ahead: dict[int, int] = {}
        if now.bytes_received != last.bytes_received:
            self._split(received, ahead)
        spent = Spent(
            where or self.outside,
            max(now.seconds - last.seconds, 0.0),
            now.rounds - last.rounds,
            now.bytes_sent - last.bytes_sent,
            received,
            ahead,
        )
        self.records.append(spent)
        self._last = now

    def _split(self, received: dict[int, int], ahead: dict[int, int]) -> None:
        """Adds what came from each peer since the last reading."""
        for peer, cost in self._stats.peers.items():
            size, early = cost.bytes_received, cost.bytes_received_ahead
            size_before, early_before = self._peers[peer]
            ahead[peer] = early - early_before
            received[peer] = size - size_before - ahead[peer]
            self._peers[peer] = size, early

    @contextmanager
    def at(self, where: str) -> Iterator[None]:
        """Within, what lies between operations belongs to this place."""
        self.read()
        before, self.outside = self.outside, where
        try:
            yield
        finally:
            self.read()
            self.outside = before

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function of the party whose time counts in other threads, too."""

        def call(*args: Any) -> Any:
            start = thread_time()
            try:
                return function(*args)
            finally:
                if get_ident() != self._thread:
                    self.elsewhere += thread_time() - start

        return call

    @contextmanager
    def rehearsing(self) -> Iterator[None]:
        """Within, time is that of the rehearsal."""
        start = thread_time()
        try:
            yield
        finally:
            self.overhead += thread_time() - start
