"""What replays of a function spend, divided among the places where its operations are.

A plan has no modules any more, and rounds of several may be merged into one. So what replays spend
is divided in proportion to what a call spent that ran normally: an estimate, whose sums are exact.
Nothing is measured within a replay.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from .profiler import Place, Profiler, Spent

Shares = Mapping[int, Spent]  # by the number of a place


class Kind(NamedTuple):
    """Calls that are alike: at one place of the program, by its number, and of one form."""

    number: int
    form: Hashable


class Replays:
    """What one repeated function spends. A call in which no operation runs is a replay."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._normal: dict[Kind, Shares] = {}
        self._replayed: dict[Kind, Spent] = {}

    @contextmanager
    def call(self, kind: Kind) -> Iterator[None]:
        """Within, the function is called, and what it spends is added to its own place."""
        profiler, own = self._profiler, self._profiler.spent[kind.number]
        operations, own_before = profiler.num_operations, own.copy()
        before = [] if kind in self._replayed else [one.copy() for one in profiler.spent]
        yield
        if profiler.num_operations == operations:
            self._replayed.setdefault(kind, Spent()).add(own.copy().add(own_before, -1))
        elif kind not in self._replayed:
            self._keep_normal(kind, before)

    def _keep_normal(self, kind: Kind, before: Sequence[Spent]) -> None:
        """Keeps what a normal call spent; of the fastest, as compiling and recording take time."""
        shares = {number: one.copy() for number, one in enumerate(self._profiler.spent)}
        for number, one in enumerate(before):
            shares[number].add(one, -1)
        shares = {i: one for i, one in shares.items() if one.calls and i != kind.number}
        known = self._normal.get(kind)
        if known is None or _whole(shares).total_seconds < _whole(known).total_seconds:
            self._normal[kind] = shares

    def divide(self) -> Iterator[tuple[Place, Spent]]:
        """Yields the parts of what replays spent, and takes them from the function's own place."""
        for kind, replayed in self._replayed.items():
            shares = self._normal.get(kind, {})
            for number, part in _parts(replayed, shares):
                self._profiler.spent[kind.number].add(part, -1)
                part.calls = replayed.calls * shares[number].calls
                place = self._profiler.places[number]
                yield Place(f"{place.part}, replayed", place.line), part


def _whole(shares: Shares) -> Spent:
    whole = Spent()
    for one in shares.values():
        whole.add(one)
    return whole


def _parts(replayed: Spent, shares: Shares) -> Iterator[tuple[int, Spent]]:
    """Yields the seconds and counts of each place. What no place has a share of is left out."""
    whole, sum_ = _whole(shares), Spent()
    for number, share in shares.items():
        part = Spent()
        for kind, seconds in replayed.seconds.items():
            part.seconds[kind] = seconds * share.seconds[kind] / (whole.seconds[kind] or 1.0)
        before = list(sum_.counts)
        sum_.add(share)
        part.counts = [
            _part(count, sum_.counts[i], whole.counts[i]) - _part(count, before[i], whole.counts[i])
            for i, count in enumerate(replayed.counts)
        ]
        yield number, part


def _part(count: int, share: int, whole: int) -> int:
    """A part of a count, rounded: parts up to each place, so that their differences add up."""
    return round(count * share / whole) if whole else 0
