"""What one party spends, operation by operation: time, rounds and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from ...transport import Stats


@dataclass(frozen=True)
class Spent:
    """The cost of one operation, or of what lies between two, at one party.

    seconds: of computing, without waiting. received: bytes from each peer in rounds; ahead: those
    that were sent ahead.
    """

    where: str
    seconds: float
    rounds: int
    bytes_sent: int
    received: dict[int, int]
    ahead: dict[int, int]


@dataclass(frozen=True)
class _Reading:
    time: float
    waiting: float
    overhead: float
    rounds: int
    bytes_sent: int
    received: dict[int, tuple[int, int]]


class Meter:
    """Records what a party spends. Parties that run the same program make records alike.

    outside: what the time between two operations belongs to. overhead: seconds of the rehearsal
    itself, which are nobody's.
    """

    def __init__(self, stats: Stats, outside: str) -> None:
        self._stats, self.outside = stats, outside
        self.overhead = 0.0
        self.records: list[Spent] = []
        self._last = _Reading(perf_counter(), 0.0, 0.0, 0, 0, {})

    def read(self, where: str | None = None) -> None:
        """Records what was spent since the last reading, as that of a place."""
        now, last = self._reading(), self._last
        passed = now.time - last.time - (now.overhead - last.overhead)
        received, ahead = {}, {}
        for peer, (size, early) in now.received.items():
            before, early_before = last.received.get(peer, (0, 0))
            ahead[peer] = early - early_before
            received[peer] = size - before - ahead[peer]
        spent = Spent(
            where or self.outside,
            max(passed - (now.waiting - last.waiting), 0.0),
            now.rounds - last.rounds,
            now.bytes_sent - last.bytes_sent,
            received,
            ahead,
        )
        self.records.append(spent)
        self._last = now

    def _reading(self) -> _Reading:
        stats = self._stats
        received = {
            peer: (cost.bytes_received, cost.bytes_received_ahead)
            for peer, cost in stats.peers.items()
        }
        return _Reading(
            perf_counter(),
            stats.seconds_waiting,
            self.overhead,
            stats.rounds,
            stats.bytes_sent,
            received,
        )

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

    @contextmanager
    def rehearsing(self) -> Iterator[None]:
        """Within, time is that of the rehearsal."""
        start = perf_counter()
        try:
            yield
        finally:
            self.overhead += perf_counter() - start
