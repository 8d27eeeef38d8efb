"""`session.map`: the results of a function for many batches, in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from ...errors import ConfigError, UnsupportedError
from ...fixedpoint.flatten import settle
from ...protocols.lanes import Lanes
from ...tensor import SecretTensor
from ..progress import MapProgress, length_of
from ..public_randomness import current_stream, drawing_from
from .isolation import Isolation

if TYPE_CHECKING:
    from ..session import Session

log = logging.getLogger("tacit")


def mapped(
    session: Session,
    function: Callable[..., Any],
    batches: tuple[Iterable[Any], ...],
    in_flight: int,
    progress: bool,
) -> Iterator[Any]:
    """Returns the iterator of `Session.map`, after a look at its arguments."""
    if not callable(function):
        raise ConfigError(f"function={function!r}", limit="map needs a function to call")
    if not batches:
        raise ConfigError("map has no batches", remedy="give it some, such as x.split(32)")
    if type(in_flight) is not int or in_flight < 1:
        raise ConfigError(f"in_flight={in_flight!r}", limit="at least one call is in flight")
    session.protocol.context.record.absorb("map", (in_flight,))
    obstacle = _obstacle(session) if in_flight > 1 else None
    if obstacle is not None and session.rank == 0:
        log.info("map: %s: one call at a time", obstacle)
    shown = MapProgress("map", length_of(*batches), prints=progress and session.prints_progress)
    count = in_flight if obstacle is None else 1
    return Mapped(session, function, zip(*batches, strict=False), count, shown).results()


def _obstacle(session: Session) -> str | None:
    """Returns why calls cannot run side by side, or None. The same at all parties."""
    if session.protocol.context.lanes is not None:
        return "it is called by a function that map calls"
    if session.numbers.trace is not None:
        return "it is part of a recorded function"
    if session.config.guard:
        return "a guard compares the values of one call after the other"
    if not session.protocol.can_interleave:
        return "without a dealer, the parties count their transfers call by call"
    if session.mesh.barrier is not None:
        return "parties that are threads and share a GPU wait for no message"
    return None


class Mapped:
    """The calls of one `map`: those in flight, and the results that wait for their turn.

    Batches are numbered. The call of batch i begins when the result of batch i - count was given to
    the program, or later. With a count of 1 everything happens in the program's own thread.
    """

    def __init__(
        self,
        session: Session,
        function: Callable[..., Any],
        batches: Iterator[tuple[Any, ...]],
        count: int,
        progress: MapProgress,
    ) -> None:
        self._session, self._function = session, function
        self._batches, self._count, self._progress = batches, count, progress
        self._taken = self._given = 0  # how many batches were taken, and results given
        self._is_taking = self._is_exhausted = False
        self._results: dict[int, Any] = {}
        self._error: BaseException | None = None
        mesh, context = session.mesh, session.protocol.context
        # A stored run has one dealer.
        turns = session.protocol.num_turns > 1 and not (mesh.deals_offline or context.blind)
        self._turns_roles = count > 1 and turns
        self._isolation = Isolation(session.numbers, settles=self._turns_roles)

    def results(self) -> Iterator[Any]:
        """Yields the results in order."""
        with self._session.loops.added(self._progress):
            yield from self._one_by_one() if self._count == 1 else self._from_lanes()

    # One call at a time ------------------------------------------------------------------------

    def _one_by_one(self) -> Iterator[Any]:
        while True:
            with self._isolation.watching():
                batch = self._next_batch()
                if batch is None:
                    return
                result = self._call(batch)
            self._progress.add_batch(batch)
            yield result

    # Several in flight -------------------------------------------------------------------------

    def _from_lanes(self) -> Iterator[Any]:
        self._modes = _modes_of_this_thread()
        self._lanes = self._isolation.lanes = Lanes(
            self._session.protocol, self._count, self._work, turns_roles=self._turns_roles
        )
        try:
            while self._has_next():
                result = self._results.pop(self._given)
                self._given += 1
                yield result
        finally:
            self._lanes.end()

    def _has_next(self) -> bool:
        """Returns whether there is a next result, after letting lanes run until it is here."""
        if self._given not in self._results:
            with self._isolation.watching():
                self._lanes.run()
        if self._error is not None:
            raise self._error
        return self._given in self._results

    def _work(self) -> None:
        """What each lane does: it takes the next batch and calls the function, until all is done.

        An error ends all lanes: at other parties this call may wait for a message.
        """
        try:
            with self._modes():
                while (taken := self._take()) is not None:
                    number, batch = taken
                    self._results[number] = self._call(batch)
                    self._progress.add_batch(batch)
                    if number == self._given:
                        self._lanes.return_to_caller()
        except BaseException as error:
            if self._lanes.ended:
                raise SystemExit from None
            self._error = error
            self._lanes.return_to_caller()

    def _take(self) -> tuple[int, tuple[Any, ...]] | None:
        """Returns the next batch with its number; None if there is none.

        The program's iterator may use secrets, too: only one lane at a time is in it.
        """
        while self._is_taking or self._taken - self._given == self._count:
            if self._is_exhausted:
                return None
            self._lanes.pass_on()
        if self._is_exhausted:
            return None
        self._is_taking = True
        try:
            batch = self._next_batch()
        finally:
            self._is_taking = False
        self._is_exhausted = batch is None
        if batch is None:
            return None
        self._taken += 1
        return self._taken - 1, batch

    # Of both -----------------------------------------------------------------------------------

    def _next_batch(self) -> tuple[Any, ...] | None:
        """Returns the next item of each of the program's iterables; None at the end of one."""
        with self._isolation.taking_a_batch():
            return next(self._batches, None)

    def _call(self, batch: tuple[Any, ...]) -> Any:
        result = self._function(*batch)
        secrets = [x for x in tree_leaves(result) if isinstance(x, SecretTensor)]
        if any(x.requires_grad for x in secrets):
            raise UnsupportedError(
                "a result of the function that session.map calls requires a gradient",
                limit="its calls run side by side and keep no graph",
                remedy="use torch.no_grad(), or detach the result",
            )
        if self._turns_roles:
            settle(self._session.numbers, [x.value for x in secrets])
        return result


Modes = Callable[[], AbstractContextManager[None]]


def _modes_of_this_thread() -> Modes:
    """Returns a context in which another thread does as this one: torch's modes and streams."""
    stream, grad = current_stream(), torch.is_grad_enabled()
    inference = torch.is_inference_mode_enabled()
    queue = torch.cuda.current_stream() if torch.cuda.is_initialized() else None
    return partial(_set_modes, stream, grad, inference, queue)


@contextmanager
def _set_modes(stream: Any, grad: bool, inference: bool, queue: Any) -> Iterator[None]:
    with ExitStack() as modes:
        if queue is not None:
            modes.enter_context(torch.cuda.stream(queue))
        modes.enter_context(drawing_from(stream))
        modes.enter_context(torch.inference_mode(inference))
        modes.enter_context(torch.set_grad_enabled(grad))
        yield
