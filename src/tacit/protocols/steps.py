"""Interactive operations as generators (`Steps`) that yield their rounds; `drive` exchanges them.

An operation is written once for all parties. At every party it yields the same rounds in the same
order, some of them empty, so that independent operations can run side by side and share rounds
without agreeing on anything. NOTE [ahead]: a round that depends on no online message of its call is
sent ahead; a party that only sends such rounds (the dealer) never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from torch import Tensor

from ..errors import ROUND_BITS, Operation, ProtocolError
from ..transport import Sendable, Spec, computed
from .chunked import ChunkBytes, in_chunks
from .out_of_memory import out_of_memory
from .share import Share

if TYPE_CHECKING:
    from .context import Context

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")
Received = dict[int, list[Tensor]]


class Round:
    """What this party sends and receives in one round of one operation. Never modified.

    A `Tiled` tensor is computed while it is sent: its memory may be read after the round.
    """

    __slots__ = ("ahead", "receive", "send")

    def __init__(
        self,
        send: Mapping[int, Sequence[Sendable]] | None = None,
        receive: dict[int, list[Spec]] | None = None,
        ahead: bool = False,
    ) -> None:
        self.send: Mapping[int, Sequence[Sendable]] = send or {}
        self.receive, self.ahead = receive or {}, ahead

    def computed(self) -> dict[int, list[Tensor]]:
        """Returns what is sent, after computing what is not yet."""
        return {peer: [computed(x) for x in tensors] for peer, tensors in self.send.items()}


PASS, PASS_AHEAD = Round(), Round(ahead=True)

Steps = Generator[Round, Received, R]


@overload
def together(one: Steps[A], two: Steps[B], /) -> Steps[tuple[A, B]]: ...
@overload
def together(*calls: Steps[R]) -> Steps[tuple[R, ...]]: ...
def together(*calls: Steps[Any]) -> Steps[tuple[Any, ...]]:
    """Runs calls side by side: returns all results, in as many rounds as the longest call takes.

    Rounds that are sent ahead go first, until every call waits for an online round or is done. The
    calls must not depend on each other; a share that several of them settle is settled once.
    """
    results: list[Any] = [None] * len(calls)
    waiting: dict[int, Round] = {}

    def resume(i: int, received: Received | None) -> None:
        try:
            waiting[i] = calls[i].send(cast(Received, received))
        except StopIteration as stop:
            results[i] = stop.value
            waiting.pop(i, None)

    for i in range(len(calls)):
        resume(i, None)
    while waiting:
        current = {i: one for i, one in waiting.items() if one.ahead} or dict(waiting)
        received = yield _merged(current.values())
        queues = {peer: iter(tensors) for peer, tensors in received.items()}
        for i, one in current.items():
            own = {peer: [next(queues[peer]) for _ in specs] for peer, specs in one.receive.items()}
            resume(i, own)
    return tuple(results)


def _merged(rounds: Iterable[Round]) -> Round:
    """One round that sends and receives what all of them do, in their order."""
    send: dict[int, list[Sendable]] = {}
    receive: dict[int, list[Spec]] = {}
    ahead = False
    for one in rounds:
        ahead = one.ahead
        for peer, tensors in one.send.items():
            send.setdefault(peer, []).extend(tensors)
        for peer, specs in one.receive.items():
            receive.setdefault(peer, []).extend(specs)
    return Round(send, receive, ahead)


def drive(context: Context, steps: Steps[R]) -> R:
    """Exchanges all rounds of a call and returns its result. The call gets randomness of its own.

    Each message carries the number of the call and that of the round in it.
    """
    context.mesh.require_own_thread()
    context.randomness = randomness = context.streams.new_call()
    received: Any = None
    recorded, context.in_recorded_call = context.in_recorded_call, True
    try:
        for index in count(randomness.number << ROUND_BITS):
            try:
                one = steps.send(received)
            except StopIteration as stop:
                result: R = stop.value
                return result
            context.record.mark_compared()
            received = _exchanged(context, one, index)
    except (RuntimeError, MemoryError) as error:
        if exhausted := out_of_memory(
            error, context, "at " + Operation(randomness.number << ROUND_BITS)
        ):
            raise exhausted from error
        raise
    finally:
        context.in_recorded_call = recorded
    raise AssertionError


def _exchanged(context: Context, one: Round, index: int) -> Received:
    """What this party receives in a round. In between, other calls in flight make one step each.

    They do so in an empty round too: at other parties the same round is not empty.
    """
    mesh, lanes = context.mesh, context.lanes
    if lanes is None:
        if not (one.send or one.receive):
            return {}
        if context.recorder is not None:
            return context.recorder.exchange(one, index)
        return mesh.exchange(one.send, one.receive, operation=index, ahead=one.ahead)
    opened = mesh.begin(one.send, one.receive, operation=index, ahead=one.ahead)
    lanes.pass_on()
    return mesh.finish(opened)


class Group:
    """The calls of a parallel block, which run when the block ends."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._calls: list[Steps[Any]] = []
        self._results: list[tuple[Share, ...]] = []

    def add(self, steps: Steps[Any], results: tuple[Share, ...]) -> None:
        """Adds a call, and the empty shares that become its results."""
        self._calls.append(steps)
        self._results.append(results)

    def run(self) -> None:
        """Runs all calls and fills their results."""
        found = drive(self._context, together(*self._calls))
        for shares, made in zip(self._results, found, strict=True):
            for share, value in zip(
                shares, made if isinstance(made, tuple) else (made,), strict=True
            ):
                share.fill(value)


class Interactive(Generic[P, R]):
    """A method of a protocol, from a function that yields rounds.

    `protocol.name(...)` runs it; `protocol.name.steps(...)` is the generator, for operations that
    are made of others. `kinds`: the types of the shares that it returns; without them it cannot be
    called in a parallel block. `chunk_bytes`: for an elementwise operation that keeps to the
    session's memory limit, the bytes that an element takes beyond operands and results. `owned`:
    arguments belong to one party, so they are not in the record of what is public.
    """

    def __init__(
        self,
        body: Callable[Concatenate[Any, P], Steps[R]],
        *kinds: type[Share],
        chunk_bytes: ChunkBytes | None = None,
        owned: bool = False,
    ) -> None:
        self.body, self.kinds, self.chunk_bytes = body, kinds, chunk_bytes
        self.owned = owned
        self.__doc__ = body.__doc__
        self.__name__ = body.__name__

    def __get__(self, protocol: Any, owner: object = None) -> Bound[P, R]:
        return Bound(self, protocol)


class Bound(Generic[P, R]):
    """An interactive operation of one protocol object."""

    __slots__ = ("_operation", "_protocol")

    def __init__(self, operation: Interactive[P, R], protocol: Any) -> None:
        self._operation, self._protocol = operation, protocol

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self._operation.__doc__

    def steps(self, *args: P.args, **kwargs: P.kwargs) -> Steps[R]:
        """Returns the generator of the rounds, for `yield from` in another operation."""
        p, operation = self._protocol, self._operation
        if operation.chunk_bytes is None or p.context.memory_limit is None:
            return operation.body(p, *args, **kwargs)
        return in_chunks(p, operation.body, operation.chunk_bytes, args, kwargs)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        context, operation = self._protocol.context, self._operation
        steps = self.steps(*args, **kwargs)
        if context.in_recorded_call:
            return self._run(steps)
        if operation.owned:
            context.record.absorb(operation.__name__, ())
        else:
            context.record.absorb(operation.__name__, args, kwargs)
        number = context.record.count
        return from_call(self._run(steps), number)

    def _run(self, steps: Steps[R]) -> R:
        """Returns the result, or in a parallel block the empty shares that become it."""
        context, operation = self._protocol.context, self._operation
        if context.group is None:
            return drive(context, steps)
        if not operation.kinds:
            raise ProtocolError(
                f"{operation.__name__} gives no share", remedy="call it after the parallel block"
            )
        results = tuple(kind.unfilled() for kind in operation.kinds)
        context.group.add(steps, results)
        return cast(R, results if len(results) > 1 else results[0])


def local(body: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Makes a method of a protocol add itself to the public record; it needs no message.

    Inside another recorded call it adds nothing: it follows from that call's operands.
    """

    @wraps(body)
    def call(protocol: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        context = protocol.context
        if context.in_recorded_call:
            return body(protocol, *args, **kwargs)
        context.record.absorb(body.__name__, args, kwargs)
        context.in_recorded_call = True
        try:
            return from_call(body(protocol, *args, **kwargs), context.record.count)
        finally:
            context.in_recorded_call = False

    return call


def from_call(made: R, number: int) -> R:
    """Notes in the shares among the results of a recorded call that it has made them."""
    for one in made if isinstance(made, list | tuple) else (made,):
        if isinstance(one, Share):
            one.origin = number
    return made
