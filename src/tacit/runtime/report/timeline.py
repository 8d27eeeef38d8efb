"""What a party did, one activity after the other, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

MOST_EVENTS = 6000
FIRST_STEP = 5e-6  # s
COMPUTING, SENDING, WAITING = "computing", "sending", "waiting"
NOBODY = -1


class Doing(NamedTuple):
    """What a party does: the kind, the number of the place, and for whom it waits."""

    kind: str
    place: int
    peer: int = NOBODY


@dataclass(slots=True)
class Event:
    """From when to when (seconds) a party did what."""

    start: float
    end: float
    doing: Doing

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Timeline:
    """What a party did from `start` on, without gaps, as at most `most` events.

    What takes less than `step` seconds is part of the event before. If there are too many events,
    the step grows, and those that are shorter are merged: what took longest stands for all.
    """

    def __init__(self, start: float, most: int = MOST_EVENTS) -> None:
        self._most, self.step = most, FIRST_STEP
        self.events = [Event(start, start, Doing(COMPUTING, 0))]

    def add(self, end: float, doing: Doing) -> None:
        """Adds what was done from the end of the last event to this moment."""
        last = self.events[-1]
        if last.doing == doing or end - last.end < self.step:
            last.end = end
            return
        self.events.append(Event(last.end, end, doing))
        if len(self.events) > self._most:
            self.step = 4 * (end - self.events[0].start) / self._most
            self.events = list(coarser(self.events, self.step))


def coarser(events: Iterable[Event], step: float) -> Iterator[Event]:
    """Yields the events, with those in a row that are shorter than a step merged up to a step."""
    short: list[Event] = []
    for one in events:
        if one.seconds < step:
            short.append(one)
        if short and (one.seconds >= step or one.end - short[0].start >= step):
            yield _merged(short)
            short = []
        if one.seconds >= step:
            yield one
    if short:
        yield _merged(short)


def _merged(events: list[Event]) -> Event:
    """Returns one event for several in a row: what took longest stands for all."""
    seconds: dict[Doing, float] = {}
    for one in events:
        seconds[one.doing] = seconds.get(one.doing, 0.0) + one.seconds
    longest = max(seconds, key=lambda doing: seconds[doing])
    return Event(events[0].start, events[-1].end, longest)
