"""What a function does below the protocols, as a list of calls on fixed memory.

NOTE [fresh masks]: words of a mask are those of (key, number of the call, place). A recorded call
knows its number only relative to the first call of the function, and each replay takes as many new
numbers as the function has calls. So no word is drawn twice, and a replay draws and sends what the
function itself would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import getrefcount
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ...protocols.steps import Round
from ...transport import Mesh

ROUND_BITS = 16  # of an operation's number, for the round within a call
MOST_COPIES = 4  # of one message, that are kept for later replays
_UNUSED = 3  # references to a copy: the list's, the loop's, and the argument's

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
        return self.function(*(first + x if type(x) is Number else x for x in self.args))


class Effect(NamedTuple):
    """Shows a tensor to a function that changes the state of a protocol."""

    function: Callable[[Tensor], None]
    x: Tensor

    def __call__(self, first: int) -> None:
        self.function(self.x)


class Admission(NamedTuple):
    """Asks the policy whether something may be revealed, and records that. number: relative."""

    admit: Callable[[int], None]
    number: int

    def __call__(self, first: int) -> None:
        self.admit(first + self.number)


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
                return old.copy_(self.source)
        new = self.source.clone()
        if len(self._copies) < MOST_COPIES:
            self._copies.append(new)
        return new


class Exchange:
    """One round: what is sent from where, and where to what is received goes.

    operation: relative to the first.
    """

    def __init__(
        self, mesh: Mesh, one: Round, sent: Tensors, places: Tensors, operation: int
    ) -> None:
        self._mesh, self._receive, self._ahead = mesh, one.receive, one.ahead
        self.sent, self.places, self.operation = sent, places, operation
        self._outgoing = {peer: [Outgoing(x) for x in xs] for peer, xs in sent.items()}

    def __call__(self, first: int) -> None:
        send = {peer: [x.copy() for x in xs] for peer, xs in self._outgoing.items()}
        operation = (first << ROUND_BITS) + self.operation
        received = self._mesh.exchange(send, self._receive, operation=operation, ahead=self._ahead)
        self.take(received)

    def take(self, received: Tensors) -> None:
        """Puts what was received where it goes."""
        for peer, places in self.places.items():
            for place, tensor in zip(places, received[peer], strict=True):
                place.copy_(tensor)

    def would_send(self, expected: Tensors) -> bool:
        """Whether it would send this now."""
        pairs = [zip(xs, expected[peer], strict=True) for peer, xs in self.sent.items()]
        return all(torch.equal(a, b) for pair in pairs for a, b in pair)


class Messages(NamedTuple):
    """What was sent and received in a round, by peer."""

    sent: Tensors
    received: Tensors


@dataclass
class Plan:
    """The steps of a function, in order. num_calls: how many numbers of calls it takes."""

    steps: list[Step] = field(default_factory=list)
    num_calls: int = 0

    def run(self, first: int) -> None:
        """Does all steps."""
        with torch.no_grad():
            for step in self.steps:
                step(first)

    def sends_again(self, messages: Iterable[Messages], first: int) -> bool:
        """Does all steps but those that others notice; whether what it would send is the same.

        messages: of each round, what was sent and what was received.
        """
        said = iter(messages)
        with torch.no_grad():
            for step in self.steps:
                if isinstance(step, Exchange):
                    sent, received = next(said)
                    if not step.would_send(sent):
                        return False
                    step.take(received)
                elif not isinstance(step, Effect | Admission):
                    step(first)
        return True
