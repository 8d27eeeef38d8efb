"""What a function does below the protocols, as a list of calls on fixed memory.

NOTE [fresh masks]: words of a mask are those of (key, number of the call, place). A recorded call
knows its number only relative to the first call of the function, and each replay takes as many new
numbers as the function has calls. So no word is drawn twice, and a replay draws and sends what the
function itself would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import memmove
from dataclasses import dataclass, field
from functools import cached_property, partial
from sys import getrefcount
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from ...errors import ROUND_BITS
from ...protocols.steps import Round
from ...transport import FixedRound, Mesh, OpenRound

MOST_COPIES = 4  # of one message, that are kept for later replays
_UNUSED = 3  # references to a copy: the list's, the loop's, and the argument's

T = TypeVar("T")
Tensors = Mapping[int, Sequence[Tensor]]  # by peer


class Number(int):
    """The number of a call, while a function is recorded."""


class Step(Protocol):
    """One step of a plan; `first` is the number of the function's first call."""

    def __call__(self, first: int) -> object: ...


class Work(NamedTuple):
    """A call of a kernel or of torch."""

    function: Callable[..., object]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self, first: int) -> object:
        return self.function(*self.args, **self.kwargs)


class Draw(NamedTuple):
    """A call of a kernel that draws from streams: Numbers among its arguments are relative."""

    function: Callable[..., object]
    args: tuple[Any, ...]

    def __call__(self, first: int) -> object:
        return self.function(*[first + x if type(x) is Number else x for x in self.args])


class Guard(NamedTuple):
    """Something that was decided by public numbers, and must be decided so in each replay."""

    function: Callable[..., object]
    args: tuple[Any, ...]
    decision: object

    def __call__(self, first: int) -> None:
        """Does nothing: it is looked at before a replay."""

    def holds(self) -> bool:
        """Whether it would be decided so by the numbers that there are now."""
        return self.function(*self.args) == self.decision


class Effect(NamedTuple):
    """Gives tensors to a function that reads or changes the state of a protocol.

    place: where the tensor goes that it returns, if any. recorded: the one that it returned when it
    was recorded.
    """

    function: Callable[..., Tensor | None]
    tensors: tuple[Tensor, ...]
    place: Tensor | None = None
    recorded: Tensor | None = None

    def __call__(self, first: int) -> None:
        self._put(self.function(*self.tensors))

    def repeat(self) -> None:
        """Returns what it returned then; the state stays as it is."""
        self._put(self.recorded)

    def _put(self, made: Tensor | None) -> None:
        if self.place is not None:
            assert made is not None
            self.place.copy_(made)


class Check(NamedTuple):
    """Gives tensors to a function that raises unless they are right. number: relative.

    Later rounds of its call wait for it, and whatever uses these tensors.
    """

    function: Callable[..., None]
    number: int
    tensors: tuple[Tensor, ...]

    def __call__(self, first: int) -> None:
        self.function(first + self.number, *self.tensors)


class Admission(NamedTuple):
    """Asks the policy whether something may be revealed, and records that. number: relative."""

    admit: Callable[[int], None]
    number: int

    def __call__(self, first: int) -> None:
        self.admit(first + self.number)


def _copy(place: Tensor, source: Tensor) -> None:
    """Copies a tensor to one of the same form; for a short one, torch's call takes the longest."""
    if source.is_cpu and source.is_contiguous() and place.is_contiguous():
        memmove(place.data_ptr(), source.data_ptr(), source.nbytes)
    else:
        place.copy_(source)


class Outgoing:
    """Copies of one tensor for its receivers, who may read them after the next replay has begun.

    The memory of a copy is used again once nobody else refers to it.
    """

    def __init__(self, source: Tensor) -> None:
        self.source = source
        self._copies: list[Tensor] = []

    def copy(self) -> Tensor:
        """Returns a copy of what the tensor holds now."""
        for old in self._copies:
            if getrefcount(old) == _UNUSED:
                return self._written(old)
        new = self._new()
        if len(self._copies) < MOST_COPIES:
            self._copies.append(new)
        return self._written(new)

    def _new(self) -> Tensor:
        return torch.empty_like(self.source)

    def _written(self, copy: Tensor) -> Tensor:
        _copy(copy, self.source)
        return copy


class Exchange:
    """One round: what is sent from where, and where to what is received goes.

    operation: relative to the first. ahead: as in `Round`. into: as in `Mesh.begin`.
    """

    def __init__(
        self, mesh: Mesh, one: Round, sent: Tensors, places: Tensors, operation: int
    ) -> None:
        self.mesh, self.receive, self.ahead = mesh, one.receive, one.ahead
        self.sent, self.places, self.operation = sent, places, operation
        self._opened: OpenRound | None = None

    @cached_property
    def num_received(self) -> int:
        """How many bytes it receives."""
        specs = [spec for specs in self.receive.values() for spec in specs]
        return sum(torch.Size(spec.shape).numel() * spec.dtype.itemsize for spec in specs)

    @cached_property
    def _fixed_round(self) -> FixedRound | None:
        return self.mesh.fixed_round(self.sent, self.places, ahead=self.ahead)

    @cached_property
    def into(self) -> Tensors:
        return _in_memory(self.places)

    @cached_property
    def _copies(self) -> dict[int, list[Outgoing]]:
        return {peer: [Outgoing(x) for x in xs] for peer, xs in self.sent.items()}

    def at(self, sent: Tensors, places: Tensors) -> Exchange:
        """Returns the same round with tensors elsewhere."""
        one = Round(receive=self.receive, ahead=self.ahead)
        return Exchange(self.mesh, one, sent, places, self.operation)

    @classmethod
    def merged(cls, parts: Sequence[Exchange], operation: int) -> Exchange:
        """Returns one round of this number in place of several."""
        first = parts[0]
        one = Round(receive=joined([part.receive for part in parts]), ahead=first.ahead)
        sent, places = (joined([getattr(part, x) for part in parts]) for x in ("sent", "places"))
        return cls(first.mesh, one, sent, places, operation)

    def __call__(self, first: int) -> None:
        self.begin(first)
        self.finish(first)

    def begin(self, first: int) -> None:
        """Sends."""
        operation = (first << ROUND_BITS) + self.operation
        if self._fixed_round is not None:
            self.mesh.begin_fixed(self._fixed_round, operation)
            return
        self._opened = self.mesh.begin(
            self._outgoing(),
            self.receive,
            operation=operation,
            ahead=self.ahead,
            into=self.into,
        )

    def finish(self, first: int) -> None:
        """Waits for what is received, and puts it where it goes."""
        if self._fixed_round is not None:
            self.mesh.finish_fixed(self._fixed_round)
            return
        assert self._opened is not None
        opened, self._opened = self._opened, None
        self.take(self.mesh.finish(opened))

    def _outgoing(self) -> Tensors:
        """Returns what is sent; nothing writes to it before it has left."""
        return {peer: [x.copy() for x in xs] for peer, xs in self._copies.items()}

    def take(self, received: Tensors) -> None:
        """Puts what was received where it goes."""
        for peer, places in self.places.items():
            for place, tensor in zip(places, received[peer], strict=True):
                if tensor is not place:
                    _copy(place, tensor)

    def would_send(self, expected: Tensors) -> bool:
        """Whether it would send this now."""
        pairs = [zip(xs, expected[peer], strict=True) for peer, xs in self.sent.items()]
        return all(torch.equal(a, b) for pair in pairs for a, b in pair)


def _in_memory(places: Tensors) -> dict[int, Sequence[Tensor]]:
    """Returns the messages that can be received into their places directly."""
    return {p: xs for p, xs in places.items() if all(x.is_cpu and x.is_contiguous() for x in xs)}


def joined(by_peer: Iterable[Mapping[int, Sequence[T]]]) -> dict[int, list[T]]:
    """Returns for each peer what all mappings have for it, one after the other."""
    found: dict[int, list[T]] = {}
    for one in by_peer:
        for peer, values in one.items():
            found.setdefault(peer, []).extend(values)
    return found


class Begin(NamedTuple):
    """Sends what a round sends. What follows until its `Finish` runs while this party waits."""

    exchange: Exchange

    def __call__(self, first: int) -> None:
        self.exchange.begin(first)


class Finish(NamedTuple):
    """Receives what a round receives."""

    exchange: Exchange

    def __call__(self, first: int) -> None:
        self.exchange.finish(first)


class Messages(NamedTuple):
    """What was sent and received in a round, by peer."""

    sent: Tensors
    received: Tensors

    @classmethod
    def merged(cls, parts: Sequence[Messages]) -> Messages:
        """Returns those of one round in place of several."""
        return cls(joined([one.sent for one in parts]), joined([one.received for one in parts]))


class BoundCall(NamedTuple):
    """What a step does, without Python's code where possible. is_numbered: it takes `first`."""

    call: Callable[..., object]
    is_numbered: bool


def bound_call(step: Step) -> BoundCall:
    """Returns what a step does."""
    if isinstance(step, Work):
        return BoundCall(partial(step.function, *step.args, **step.kwargs), False)
    if isinstance(step, Begin):
        return BoundCall(step.exchange.begin, True)
    if isinstance(step, Finish):
        return BoundCall(step.exchange.finish, True)
    return BoundCall(step, True)


@dataclass
class Plan:
    """The steps of a function, in order. num_calls: how many numbers of calls it takes.

    A round is an `Exchange`, or a `Begin` and its `Finish`, before any other begins. Once it has
    run, its steps do not change. run_steps: does them in place of `run`, to time them.
    """

    steps: list[Step] = field(default_factory=list)
    num_calls: int = 0
    run_steps: Callable[[Sequence[Step], int], None] | None = None
    _calls: list[BoundCall] = field(default_factory=list)

    @property
    def num_rounds(self) -> int:
        """How many rounds it takes, as `session.stats` counts them."""
        begun = [step.exchange for step in self.steps if isinstance(step, Begin)]
        exchanges = [*begun, *(step for step in self.steps if isinstance(step, Exchange))]
        return sum(1 for one in exchanges if one.receive and not one.ahead)

    def run(self, first: int) -> None:
        """Does all steps."""
        if not self._calls:
            self._calls = [*map(bound_call, self.steps)]
        with torch.no_grad():
            if self.run_steps is not None:
                self.run_steps(self.steps, first)
                return
            for call, is_numbered in self._calls:
                if is_numbered:
                    call(first)
                else:
                    call()

    def sends_again(self, messages: Iterable[Messages], first: int) -> bool:
        """Does all steps but those that others notice; whether what it would send is the same.

        messages: of each round, what was sent and what was received.
        """
        said = iter(messages)
        received: Tensors = {}
        with torch.no_grad():
            for step in self.steps:
                if isinstance(step, Exchange | Begin):
                    exchange = step.exchange if isinstance(step, Begin) else step
                    sent, received = next(said)
                    if not exchange.would_send(sent):
                        return False
                if isinstance(step, Exchange | Finish):
                    exchange = step.exchange if isinstance(step, Finish) else step
                    exchange.take(received)
                elif isinstance(step, Effect):
                    step.repeat()
                elif not isinstance(step, Begin | Admission | Check):
                    step(first)
        return True
