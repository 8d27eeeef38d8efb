"""A function's work at all parties as one CUDA graph, replayed without running Python code.

NOTE [fresh masks]: a recorded kernel draws its masks from a key in a buffer at a fixed address,
with the operation number of the recording. Before each replay every key in these buffers is
replaced by a new one, drawn from a stream for new keys at an operation number that nothing else
uses. So no mask is drawn twice, and all holders of a key still draw the same masks.
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
from ...fixedpoint.flatten import canonical, signature
from ...tensor import SecretTensor
from ...tensor.trace import Trace, is_upload
from .buffers import SecretTree, ValueBuffers
from .gradients import Gradients

if TYPE_CHECKING:
    from ..session import Session

LEADER = 0  # the party on whose stream the graph is recorded and started


class Capture(Trace):
    """Traces a thread while a graph is captured.

    Copies from the host are made at once, on another stream, and are not part of the graph. `held`
    keeps their memory, and all older memory that the graph reads, alive as long as the graph.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.held: dict[int, Any] = {}
        # torch hands out 32 streams of each priority in turn: another priority is another stream.
        self._upload_stream = torch.cuda.Stream(device, priority=-1)

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        if is_upload(func, args, kwargs):
            with torch.cuda.stream(self._upload_stream):
                made = func(*args, **kwargs)
            self._upload_stream.synchronize()
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
    """A function's work on arguments of one form, captured as a graph."""

    def __init__(
        self,
        session: Session,
        function: Callable[..., Any],
        given: SecretTree,
        seen: Trace,
        parameters: Sequence[SecretTensor],
    ) -> None:
        """Captures the graph. All parties call this at the same time.

        `seen`: what the function used in the call before; `parameters`: tensors that may get
        gradients besides those in `seen`.
        """
        self._session, self._seen = session, seen
        self._input_buffers = ValueBuffers(session.numbers, given.values)
        self._state = seen.written()  # what the function writes to
        self._state_buffers = ValueBuffers(session.numbers, self._current_state())
        self._source = session.protocol.context.streams
        self._keys = self._source.blank_keys()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._trace = Capture(session.device)
        self._kept_weights: list[Any] = []
        leaves = [*(used.tensor for used in seen.leaves.values()), *parameters]
        self._gradients = Gradients(leaves)
        before, revealed = session.stats.snapshot(), len(session.reveals)
        values = [cell.value for cell in self._state]
        try:
            self._capture_graph(function, given)
            self._check(given, len(session.reveals) > revealed)
        except BaseException:
            self._restore(values)
            raise
        self._cost = session.stats.take_back(before)
        self._trace.forget()

    def _capture_graph(self, function: Callable[..., Any], given: SecretTree) -> None:
        session, stream = self._session, torch.cuda.current_stream()
        torch.cuda.synchronize()
        session.gather_objects(None)
        if session.rank == LEADER:
            self._graph = torch.cuda.CUDAGraph()
            self._graph.capture_begin(capture_error_mode="relaxed")
        try:
            session.gather_objects(event())[LEADER].wait(stream)
            for cell, value in zip(self._state, self._state_buffers.aliases(), strict=True):
                cell.set(value)
            self._results = self._run(function, given)
            others = session.gather_objects(event())
            if self._graph is not None:
                for other in others:
                    other.wait(stream)
        except BaseException:
            self._end_capture()
            raise
        if self._graph is not None:
            self._graph.capture_end()
        session.gather_objects(None)

    def _end_capture(self) -> None:
        """Ends a capture that failed, so that its streams can be used again."""
        if self._graph is not None:
            with suppress(RuntimeError):  # some stream was not joined
                self._graph.capture_end()

    def _restore(self, values: Sequence[Value]) -> None:
        """Restores what was written during the capture: a capture computes no values."""
        for cell, version in self._trace.cells.values():
            if cell.version != version:
                cell.set(self._trace.values[id(cell)])
        for cell, value in zip(self._state, values, strict=True):
            cell.set(value)
        self._gradients.restore()

    def _run(self, function: Callable[..., Any], given: SecretTree) -> SecretTree:
        """Runs the function on the input buffers; copies what it writes to the state buffers."""
        session, cache = self._session, self._session.protocol.context.products.cache
        cache.pins = self._kept_weights
        try:
            with self._source.using(self._keys), self._trace.on(session.numbers):
                args, kwargs = given.with_secrets(session.numbers, self._input_buffers.aliases())
                made = SecretTree.of(function(*args, **kwargs))
                compute(made.values)
                self._gradients.observe(self._trace)
                new = self._current_state()
        finally:
            cache.pins = None
        self._output_buffers = ValueBuffers(session.numbers, made.values)
        for other in session.gather_objects(
            event()
        ):  # a peer may still read a message that is part of a value
            other.wait(torch.cuda.current_stream())
        self._state_buffers.copy_from(new)
        self._last_state = [
            cell.value for cell in self._state
        ]  # what the buffers hold after a replay
        self._keeps_signatures = [
            signature(value) for value in new
        ] == self._state_buffers.signatures
        return made._replace(secrets=[])

    def _current_state(self) -> list[Value]:
        """Returns the current values of the state."""
        return canonical(self._session.numbers, [cell.value for cell in self._state])

    def _check(self, given: SecretTree, reveals: bool) -> None:
        """Raises ConfigError unless the function used the same tensors as in the call before."""
        capture, written = self._trace, {id(cell) for cell in self._trace.written()}
        expected = self._seen.cells.keys() | {id(x._cell) for x in given.secrets}
        obstacle = "it reveals" if reveals else capture.obstacle
        if not capture.cells.keys() <= expected:
            obstacle = "it reads other secrets than before"
        elif written - {id(cell) for cell in self._state} or not self._keeps_signatures:
            obstacle = "other tensors, or of another form, were written"
        if obstacle:
            raise ConfigError(
                f"the function did not do the same as the time before ({obstacle})",
                subject="repeated",
                remedy="call it as it is",
            )

    def fits(self, given: SecretTree) -> bool:
        """Returns whether the graph does what the function would do with these arguments now."""
        written = {id(cell) for cell in self._state}
        if any(id(x._cell) in written for x in given.secrets):
            return False
        return self._gradients.are_unchanged() and self._reads_unchanged(written)

    def _reads_unchanged(self, written: Set[int]) -> bool:
        """Whether everything that the function only reads is unchanged."""
        return self._trace.is_same() and all(
            cell.version == version
            for cell, version in self._trace.cells.values()
            if id(cell) not in written
        )

    def accept_state(self) -> bool:
        """Copies state that was written since the last replay into the buffers.

        Returns False if its form has changed. All parties call this at the same time.
        """
        if [id(cell.value) for cell in self._state] == [id(value) for value in self._last_state]:
            return True
        now = self._current_state()
        if [signature(value) for value in now] != self._state_buffers.signatures:
            return False
        self._state_buffers.copy_from(now)
        return True

    def replay(self, given: SecretTree) -> Any:
        """Returns the function's results for these arguments, for which `fits` holds."""
        session, stream = self._session, torch.cuda.current_stream()
        # Its public operands are those of the recording.
        session.protocol.context.record.absorb("replay", ())
        self._input_buffers.copy_from(given.values)
        self._source.renew(self._keys, self._source.new_number())
        befores = session.gather_objects(event())
        if self._graph is not None:
            for before in befores:
                before.wait(stream)
            self._graph.replay()
        session.gather_objects(event())[LEADER].wait(stream)
        self._last_state = self._state_buffers.clones() if self._state else []
        for cell, value in zip(self._state, self._last_state, strict=True):
            cell.set(value)
        self._gradients.assign(session.numbers)
        session.stats.accumulate(self._cost)
        return self._results.with_secrets(session.numbers, self._output_buffers.clones())


def compute(values: Sequence[Value]) -> None:
    """Computes lazy values."""
    for value in values:
        signature(value)


def event() -> torch.cuda.Event:
    """Returns an event that occurs when all work queued by this thread is done."""
    made = torch.cuda.Event()
    made.record()
    return made
