"""What one party spends: seconds, rounds and bytes, by place of the program and over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from time import perf_counter
from typing import Any, NamedTuple

import torch

from ...transport import Mesh
from ..places import line_label, typed_module_label
from .memory_samples import MemorySamples
from .timeline import COMPUTING, NOBODY, SENDING, WAITING, Doing, Timeline

BEFORE = "keys, before the program begins"
OUTSIDE = "the program outside of operations"
COUNTED = ("rounds", "bytes_sent", "bytes_received", "messages")
MOST_GRAPH_NODES = 1 << 16  # operations whose places are kept for the backward pass


class Place(NamedTuple):
    """A part of the program: a module, or what the session does; and a line."""

    part: str
    line: str


class Spent:
    """What was spent at a place. seconds: by what the party did. counts: as COUNTED names them."""

    __slots__ = ("calls", "counts", "seconds")

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = {COMPUTING: 0.0, SENDING: 0.0, WAITING: 0.0}
        self.counts = [0] * len(COUNTED)

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    def copy(self) -> Spent:
        """Returns the same, which later readings do not change."""
        return Spent().add(self)

    def add(self, other: Spent, sign: int = 1) -> Spent:
        """Adds what was spent elsewhere, or takes it away; returns this one."""
        self.calls += sign * other.calls
        for kind, seconds in other.seconds.items():
            self.seconds[kind] += sign * seconds
        self.counts = [a + sign * b for a, b in zip(self.counts, other.counts, strict=True)]
        return self


class Profiler:
    """Divides the time of a party into what it does, and what `stats` counts, among places.

    It reads the clock and the statistics when the party begins or ends an operation, a send or a
    wait. Each thread is at a place of its own, so calls in flight keep theirs. The first reading
    takes what was counted before the program began.
    """

    def __init__(self, mesh: Mesh) -> None:
        self._mesh, self._stats = mesh, mesh.stats
        self.places: list[Place] = []  # in the order in which the program came to them
        self._numbers: dict[Place, int] = {}
        self.spent: list[Spent] = []
        self.num_operations = 0  # on secrets, which began so far
        self.waited: dict[int, float] = {}
        self.memory = MemorySamples()
        self.failed_at: Place | None = None
        self._failure = 0  # identifies the last error
        self._at: dict[int, int] = {}  # the place of each thread
        self._nodes: dict[int, int] = {}  # the places of operations, by their nodes of autograd
        self._counted = [0] * len(COUNTED)
        self._outside = self._number(Place(BEFORE, ""))
        self.start = self._last = perf_counter()
        self.timeline = Timeline(self.start)
        self._close(COMPUTING)
        self._outside = self._number(Place(OUTSIDE, ""))

    @property
    def seconds(self) -> float:
        """The time from the start to the last reading."""
        return self._last - self.start

    # What the mesh tells --------------------------------------------------------------------------

    def leave_computing(self) -> None:
        self._close(COMPUTING)

    def note_sent(self) -> None:
        self._close(SENDING)

    def note_waited(self, last: int) -> None:
        seconds = self._close(WAITING, last)
        self.waited[last] = self.waited.get(last, 0.0) + seconds

    # Where the program is -------------------------------------------------------------------------

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a call of an operation that does the same at its place of the program."""

        def measured(*args: Any) -> Any:
            self.num_operations += 1
            number, before = self._enter(self._running(name))
            try:
                return call(*args)
            except BaseException as error:
                self._note_failure(number, error)
                raise
            finally:
                self._leave(before)

        return measured

    @contextmanager
    def at(self, part: str) -> Iterator[None]:
        """Within, what belongs to no operation belongs to this part, at the line that runs."""
        number, before = self._enter(self.here(part))
        try:
            yield
        except BaseException as error:
            self._note_failure(number, error)
            raise
        finally:
            self._leave(before)

    def here(self, part: str) -> int:
        """Returns the number of the place of this part at the line that runs."""
        return self._number(Place(part, line_label()))

    def _enter(self, number: int) -> tuple[int, int]:
        """Moves this thread to a place; returns the numbers of that place and the one before."""
        thread = get_ident()
        before = self._at.get(thread, self._outside)
        self._close(COMPUTING)
        self._at[thread] = number
        self.spent[number].calls += 1
        return number, before

    def _leave(self, before: int) -> None:
        """Moves this thread back."""
        self._close(COMPUTING)
        self._at[get_ident()] = before

    def end(self, error: BaseException | None) -> None:
        """Takes the last reading. error: what ended the run, if it failed."""
        if error is not None:
            self._note_failure(self._outside, error)
        self._close(COMPUTING)
        self.memory.take(self._last)

    def _note_failure(self, number: int, error: BaseException) -> None:
        """Notes where an error was raised; a message that never came was waited for until then.

        It passes the innermost place first. The error itself is not kept: it may hold values.
        """
        if self._failure != id(error):
            self._failure, self.failed_at = id(error), self.places[number]
            if missing := self._mesh.waiting_for:
                self.note_waited(missing[0])

    def _running(self, name: str) -> int:
        """Returns the number of the place of an operation: its module, or else its own name.

        In a backward pass it is that of the operation whose gradient is computed.
        """
        node: Any = torch._C._current_autograd_node()
        if node is not None:
            number = self._nodes.get(node._sequence_nr())
            if number is not None:
                place = self.places[number]
                return self._number(Place(f"{place.part}, backward", place.line))
        number = self._number(Place(typed_module_label() or name, line_label()))
        if node is None and torch.is_grad_enabled():
            if len(self._nodes) >= MOST_GRAPH_NODES:
                self._nodes.clear()
            # The last node so far: of this operation, or of an earlier one if it has none.
            self._nodes.setdefault(torch._C._autograd._get_sequence_nr() - 1, number)
        return number

    def _number(self, place: Place) -> int:
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self.spent)
            self.places.append(place)
            self.spent.append(Spent())
        return number

    # Readings -------------------------------------------------------------------------------------

    def _close(self, kind: str, peer: int = NOBODY) -> float:
        """Ends what the party did until now: adds its seconds and counts to its place."""
        now, last = perf_counter(), self._last
        number = self._at.get(get_ident(), self._outside)
        spent, stats, before = self.spent[number], self._stats, self._counted
        spent.seconds[kind] += now - last
        counted = [stats.rounds, stats.bytes_sent, stats.bytes_received, stats.messages]
        if counted != before:
            spent.counts = [
                sum_ + new - old
                for sum_, new, old in zip(spent.counts, counted, before, strict=True)
            ]
            self._counted = counted
        self.timeline.add(now, Doing(kind, number, peer))
        self._last = now
        if now >= self.memory.next:
            self.memory.take(now)
        return now - last
