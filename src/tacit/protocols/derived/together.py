"""Independent operations inside another one, in shared rounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast, overload

from ..steps import Received, Round, Steps

A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")


@overload
def together(one: Steps[A], two: Steps[B], /) -> Steps[tuple[A, B]]: ...
@overload
def together(*calls: Steps[R]) -> Steps[tuple[R, ...]]: ...
def together(*calls: Steps[Any]) -> Steps[tuple[Any, ...]]:
    """The results of all calls, in as many rounds as the longest of them.

    The calls must not depend on each other. One that changes its argument in place, as `settled`
    does, must not share that argument with another.
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
        ahead = {i: one for i, one in waiting.items() if one.ahead}
        current = ahead or dict(waiting)
        received = yield _merged(current.values())
        queues = {peer: iter(tensors) for peer, tensors in received.items()}
        for i, one in current.items():
            own = {peer: [next(queues[peer]) for _ in specs] for peer, specs in one.receive.items()}
            resume(i, own)
    return tuple(results)


def _merged(rounds: Iterable[Round]) -> Round:
    """One round that sends and receives what all of them do, in their order."""
    merged = Round()
    for one in rounds:
        merged.ahead = one.ahead
        for peer, tensors in one.send.items():
            merged.send.setdefault(peer, []).extend(tensors)
        for peer, specs in one.receive.items():
            merged.receive.setdefault(peer, []).extend(specs)
    return merged
