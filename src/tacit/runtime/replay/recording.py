"""The work of all parties on one GPU as one graph, which is started without any of their code.

NOTE [fresh masks]: a recorded kernel draws its masks from the key that lies in a fixed place and
with the operation's number of the recording. Before each repetition every key in that place is made
anew, from the stream of the group's key at an operation number that is used for nothing else. So no
mask is ever made twice, and the holders of a key still make the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...errors import ConfigError
from ...fixedpoint import Value
from ...fixedpoint.flatten import form, normal
from ...tensor import SecretTensor
from ...tensor.trace import Trace, is_upload
from .buffers import Structure, Values
from .gradients import Gradients

if TYPE_CHECKING:
    from ..session import Session

LEADER = 0  # the party on whose stream the graph is recorded and started


class Capture(Trace):
    """Watches a thread while a graph is recorded.

    What is copied from the host is copied at once, on a stream beside; that, and whatever was there
    before, is kept as long as the graph.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.held: dict[int, Any] = {}
        # Of another priority than the parties' streams: torch hands out 32 of each, in turn.
        self._beside = torch.cuda.Stream(device, priority=-1)

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        if is_upload(func, args, kwargs):
            with torch.cuda.stream(self._beside):
                made = func(*args, **kwargs)
            self._beside.synchronize()
            self._hold(made)
            return made
        for x in found:
            if x.is_cuda and not self.is_new(x):
                self._hold(x)
        return func(*args, **kwargs)

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.held[storage._cdata] = storage


class Recording:
    """A function's work on arguments of one form, and how it is done again."""

    def __init__(
        self,
        session: Session,
        function: Callable[..., Any],
        given: Structure,
        seen: Trace,
        parameters: Sequence[SecretTensor],
    ) -> None:
        """Records: all parties come here at once.

        `seen`: what the function used the time before; `parameters`: what else may get gradients.
        """
        self._session, self._seen = session, seen
        self._inputs = Values(session, given.values)
        self._state = seen.written()  # by the function, or by others since
        self._values = Values(session, self._now())
        self._source = session.protocol.context.source
        self._keys = self._source.blank_keys()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._capture = Capture(session.device)
        self._held: list[Any] = []
        leaves = [*(used.tensor for used in seen.leaves.values()), *parameters]
        self._gradients = Gradients(leaves)
        before, revealed = session.stats.snapshot(), len(session.reveals)
        values = [cell.value for cell in self._state]
        try:
            self._record(function, given)
            self._check(given, len(session.reveals) > revealed)
        except BaseException:
            self._undo(values)
            raise
        self._cost = session.stats.take_back(before)
        self._capture.forget()

    def _record(self, function: Callable[..., Any], given: Structure) -> None:
        session, stream = self._session, torch.cuda.current_stream()
        torch.cuda.synchronize()
        session.meet(None)
        if session.rank == LEADER:
            self._graph = torch.cuda.CUDAGraph()
            self._graph.capture_begin(capture_error_mode="relaxed")
        try:
            session.meet(event())[LEADER].wait(stream)
            for cell, value in zip(self._state, self._values.fixed(), strict=True):
                cell.set(value)
            self._results = self._work(function, given)
            others = session.meet(event())
            if self._graph is not None:
                for other in others:
                    other.wait(stream)
        except BaseException:
            self._give_up()
            raise
        if self._graph is not None:
            self._graph.capture_end()
        session.meet(None)

    def _give_up(self) -> None:
        """Ends a recording that failed; the streams that were part of it can be used again."""
        if self._graph is not None:
            with suppress(RuntimeError):  # there is work that was not joined
                self._graph.capture_end()

    def _undo(self, values: Sequence[Value]) -> None:
        """Takes back what was written, which was never computed, should somebody go on."""
        for cell, version in self._capture.cells.values():
            if cell.version != version:
                cell.set(self._capture.values[id(cell)])
        for cell, value in zip(self._state, values, strict=True):
            cell.set(value)
        self._gradients.undo()

    def _work(self, function: Callable[..., Any], given: Structure) -> Structure:
        """The function's results, in a room; what it writes is put where it was read."""
        session, cache = self._session, self._session.protocol.context.products.cache
        cache.pins = self._held
        try:
            with self._source.under(self._keys), self._capture.on(session.numbers):
                args, kwargs = given.with_secrets(session, self._inputs.fixed())
                made = Structure.of(function(*args, **kwargs))
                compute(made.values)
                self._gradients.look(self._capture)
                new = self._now()
        finally:
            cache.pins = None
        self._outputs = Values(session, made.values)
        for other in session.meet(event()):  # who may still read a message that is part of a value
            other.wait(torch.cuda.current_stream())
        self._values.put(new)
        self._handed = [cell.value for cell in self._state]  # what is in the room when it has run
        self._is_steady = [form(value) for value in new] == self._values.forms
        return made._replace(secrets=[])

    def _now(self) -> list[Value]:
        """The values of what is written."""
        return normal(self._session.numbers, [cell.value for cell in self._state])

    def _check(self, given: Structure, reveals: bool) -> None:
        """What was used must be what was foreseen, and of the same form as before."""
        capture, written = self._capture, {id(cell) for cell in self._capture.written()}
        foreseen = self._seen.cells.keys() | {id(x._cell) for x in given.secrets}
        obstacle = "it reveals" if reveals else capture.obstacle
        if not capture.cells.keys() <= foreseen:
            obstacle = "it reads other secrets than before"
        elif written - {id(cell) for cell in self._state} or not self._is_steady:
            obstacle = "other tensors, or of another form, were written"
        if obstacle:
            raise ConfigError(
                "repeated: the function did not do the same as the time before "
                f"({obstacle}): call it as it is"
            )

    def fits(self, given: Structure) -> bool:
        """Whether the recording does what the function would do with these arguments now."""
        written = {id(cell) for cell in self._state}
        if any(id(x._cell) in written for x in given.secrets):
            return False
        return self._gradients.are_as_before() and self._same(written)

    def _same(self, written: Set[int]) -> bool:
        """Whether what was only read is as it was."""
        return self._capture.is_same() and all(
            cell.version == version
            for cell, version in self._capture.cells.values()
            if id(cell) not in written
        )

    def take_state(self) -> bool:
        """Whether what others have written to the state has its form; then it is put in place.

        All parties come here at once.
        """
        if [id(cell.value) for cell in self._state] == [id(value) for value in self._handed]:
            return True
        now = self._now()
        if [form(value) for value in now] != self._values.forms:
            return False
        self._values.put(now)
        return True

    def play(self, given: Structure) -> Any:
        """The function's results for these arguments, which fit."""
        session, stream = self._session, torch.cuda.current_stream()
        self._inputs.put(given.values)
        self._source.renew(self._keys, session.protocol.context.new_number())
        befores = session.meet(event())
        if self._graph is not None:
            for before in befores:
                before.wait(stream)
            self._graph.replay()
        session.meet(event())[LEADER].wait(stream)
        self._handed = self._values.copies() if self._state else []
        for cell, value in zip(self._state, self._handed, strict=True):
            cell.set(value)
        self._gradients.hand_out(session.numbers)
        session.stats.accumulate(self._cost)
        return self._results.with_secrets(session, self._outputs.copies())


def compute(values: Sequence[Value]) -> None:
    """Computes what nobody has read yet."""
    for value in values:
        form(value)


def event() -> torch.cuda.Event:
    """The moment when all that this thread has queued is done."""
    made = torch.cuda.Event()
    made.record()
    return made
