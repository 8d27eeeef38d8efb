"""What a function does below the protocols, as a list of calls on fixed memory.

NOTE [fresh masks]: words of a mask are those of (key, number of the call, place). A recorded call
knows its number only relative to the first call of the function, and each replay takes as many new
numbers as the function has calls. So no word is drawn twice, and a replay draws and sends what the
function itself would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ...transport import Mesh, Spec

ROUND_BITS = 16  # of an operation's number, for the round within a call


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


class Exchange(NamedTuple):
    """One round: what is sent from where, and where to what is received goes."""

    mesh: Mesh
    send: Mapping[int, Sequence[Tensor]]
    receive: Mapping[int, Sequence[Spec]]
    places: Mapping[int, Sequence[Tensor]]
    operation: int  # relative to the first
    ahead: bool

    def __call__(self, first: int) -> None:
        # A peer may read what it was sent after this memory was written again.
        sent = {peer: [x.clone() for x in tensors] for peer, tensors in self.send.items()}
        operation = (first << ROUND_BITS) + self.operation
        self.take(self.mesh.exchange(sent, self.receive, operation=operation, ahead=self.ahead))

    def take(self, received: Mapping[int, Sequence[Tensor]]) -> None:
        """Puts what was received where it goes."""
        for peer, places in self.places.items():
            for place, tensor in zip(places, received[peer], strict=True):
                place.copy_(tensor)


class Messages(NamedTuple):
    """What was sent and received in a round, by peer."""

    sent: Mapping[int, Sequence[Tensor]]
    received: Mapping[int, Sequence[Tensor]]


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
                    if any(
                        not torch.equal(a, b)
                        for peer, tensors in step.send.items()
                        for a, b in zip(tensors, sent[peer], strict=True)
                    ):
                        return False
                    step.take(received)
                elif not isinstance(step, Effect):
                    step(first)
        return True
