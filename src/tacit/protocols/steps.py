"""Interactive operations as generators: each yields its rounds, and a driver exchanges them.

An operation is written once for all parties. At every party it yields the same rounds in the same
order, if only empty ones, so that independent operations can be driven side by side and share
rounds without agreeing on anything. NOTE [ahead]: a round that depends on no online message of its
call can be sent ahead; the party that only sends such rounds (the dealer) never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from torch import Tensor

from ..errors import ProtocolError
from ..transport import Spec
from .share import Share

if TYPE_CHECKING:
    from .base import Protocol
    from .context import Context
    from .tape import Tape

P = ParamSpec("P")
R = TypeVar("R")
Received = dict[int, list[Tensor]]


@dataclass
class Round:
    """What this party sends and receives in one round of one operation."""

    send: dict[int, list[Tensor]] = field(default_factory=dict)
    receive: dict[int, list[Spec]] = field(default_factory=dict)
    ahead: bool = False


Steps = Generator[Round, Received, R]


class Call:
    """One running operation: its generator, its tape and the round it waits for."""

    def __init__(self, context: Context, steps: Steps[Any], tape: Tape) -> None:
        self._context, self._steps, self._tape = context, steps, tape
        self.round: Round | None = None
        self.result: Any = None
        self._resume(None)

    def _resume(self, received: Received | None) -> None:
        self._context.tape = self._tape
        try:
            self.round = self._steps.send(cast(Received, received))
        except StopIteration as stop:
            self.round, self.result = None, stop.value

    def resume(self, received: Received) -> None:
        self._resume(received)


def drive(context: Context, calls: Sequence[Call], number: int) -> None:
    """Runs the calls to their ends; those that wait at the same time share a round.

    Rounds sent ahead are exchanged first, until every call waits for an online round or is done.
    """
    index = 0
    while running := [call for call in calls if call.round]:
        ahead = [call for call in running if call.round and call.round.ahead]
        for call, received in _share_round(context, ahead or running, number << 16 | index):
            call.resume(received)
        index += 1


def _share_round(
    context: Context, calls: Sequence[Call], operation: int
) -> list[tuple[Call, Received]]:
    rounds = [call.round for call in calls if call.round]
    send: dict[int, list[Tensor]] = {}
    receive: dict[int, list[Spec]] = {}
    for one in rounds:
        for peer, tensors in one.send.items():
            send.setdefault(peer, []).extend(tensors)
        for peer, specs in one.receive.items():
            receive.setdefault(peer, []).extend(specs)
    arrived: Received = {}
    if send or receive:
        arrived = context.mesh.exchange(send, receive, operation=operation, ahead=rounds[0].ahead)
    queues = {peer: iter(tensors) for peer, tensors in arrived.items()}
    return [
        (call, {peer: [next(queues[peer]) for _ in specs] for peer, specs in one.receive.items()})
        for call, one in zip(calls, rounds, strict=True)
    ]


class Group:
    """The calls of a parallel block, run when it ends."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: list[tuple[Steps[Any], tuple[Share, ...]]] = []

    def add(self, steps: Steps[Any], results: tuple[Share, ...]) -> None:
        self._waiting.append((steps, results))

    def run(self) -> None:
        context = self._context
        calls = [Call(context, steps, context.new_tape()) for steps, _ in self._waiting]
        drive(context, calls, context.new_number())
        for call, (_, results) in zip(calls, self._waiting, strict=True):
            found = call.result if isinstance(call.result, tuple) else (call.result,)
            for share, value in zip(results, found, strict=True):
                share.fill(value)


class Interactive(Generic[P, R]):
    """A method of a protocol, made of a function that yields rounds.

    `protocol.name(...)` runs it; `protocol.name.steps(...)` is the generator, for operations that
    are made of others. `kinds` are the kinds of share it returns, known before it has run; without
    them it cannot be called in a parallel block.
    """

    def __init__(self, body: Callable[Concatenate[Any, P], Steps[R]], *kinds: type[Share]) -> None:
        self.body, self.kinds = body, kinds
        self.__doc__ = body.__doc__
        self.__name__ = body.__name__

    def __get__(self, protocol: Protocol | None, owner: object = None) -> Bound[P, R]:
        return Bound(self, protocol)


class Bound(Generic[P, R]):
    """An interactive operation of one protocol object."""

    __slots__ = ("_operation", "_protocol")

    def __init__(self, operation: Interactive[P, R], protocol: Protocol | None) -> None:
        self._operation, self._protocol = operation, protocol

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self._operation.__doc__

    def steps(self, *args: P.args, **kwargs: P.kwargs) -> Steps[R]:
        return self._operation.body(self._protocol, *args, **kwargs)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        assert self._protocol is not None
        context, steps = self._protocol.context, self.steps(*args, **kwargs)
        if context.group is None:
            tape = context.new_tape()
            call = Call(context, steps, tape)
            drive(context, [call], tape.number)
            return cast(R, call.result)
        kinds = self._operation.kinds
        if not kinds:
            raise ProtocolError(
                f"{self._operation.__name__} gives no share: call it after the parallel block"
            )
        results = tuple(kind.unfilled() for kind in kinds)
        context.group.add(steps, results)
        return cast(R, results if len(results) > 1 else results[0])
