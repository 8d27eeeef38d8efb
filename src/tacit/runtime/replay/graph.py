"""A function's work at all parties as one CUDA graph, replayed without running Python code.

NOTE [fresh masks]: a recorded kernel draws its masks from a key in a buffer at a fixed address,
with the operation number of the recording. Before each replay every key in these buffers is
replaced by a new one, drawn from a stream for new keys at an operation number that nothing else
uses. So no mask is drawn twice, and all holders of a key still draw the same masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from ...fixedpoint import Value
from ...tensor.trace import Trace, is_upload
from .buffers import SecretTree
from .recording import Party, Recording, not_the_same
from .summary import RecordingSummary

LEADER = 0  # the party on whose stream the graph is recorded and started


class Capture(Trace):
    """Traces a thread while a graph is captured.

    Copies from the host are made at once, on another stream, and are not part of the graph. `held`
    keeps their memory, and all older memory that the graph reads, alive as long as the graph.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.held: dict[int, Any] = {}
        self._device = device
        # torch hands out 32 streams of each priority in turn: another priority is another stream.
        self._upload_stream = torch.cuda.Stream(device, priority=-1)

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        if is_upload(func, args, kwargs):
            return self._uploaded(partial(func, *args, **kwargs))
        for x in found:
            if x.is_cuda and not self.is_new(x):
                self._hold(x)
        if any(x.is_cuda for x in found):  # others are indices, or numbers that are copied
            args, kwargs = tree_map(self._on_gpu, (args, kwargs))
        return func(*args, **kwargs)

    def _uploaded(self, upload: Callable[[], Tensor]) -> Tensor:
        with torch.cuda.stream(self._upload_stream):
            made = upload()
        self._upload_stream.synchronize()
        self._hold(made)
        return made

    def _on_gpu(self, x: Any) -> Any:
        """Returns a public tensor of the host on the GPU; the graph would read freed memory."""
        if not isinstance(x, Tensor) or not x.is_cpu or not x.dim():
            return x
        return self._uploaded(lambda: x.to(self._device))

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.held[storage._cdata] = storage


class GraphRecording(Recording):
    """A function's work on arguments of one form, captured as a graph."""

    @classmethod
    def decided(cls, session: Party, opinion: bool) -> bool:
        return all(session.gather_objects(opinion))

    @classmethod
    def gathered(cls, session: Party, text: str) -> list[str]:
        return session.gather_objects(text)

    def first_results(self, given: SecretTree) -> Any:
        return self.replay(given)

    def _record(self, function: Callable[..., Any], given: SecretTree) -> None:
        session = self._session
        self._source = session.protocol.context.streams
        self._keys = self._source.blank_keys()
        self._graph: torch.cuda.CUDAGraph | None = None
        before, revealed = session.stats.snapshot(), len(session.reveals)
        values = [cell.value for cell in self._state]
        try:
            self._capture_graph(function, given)
            reveals = len(session.reveals) > revealed
            difference = "it reveals" if reveals else self._difference(given)
            if difference:
                raise not_the_same(difference)
        except BaseException:
            self._restore(values)  # a capture computes no values
            raise
        self._cost = session.stats.take_back(before)
        self._trace.forget()

    def _make_trace(self) -> Trace:
        return Capture(self._session.device)

    def _capture_graph(self, function: Callable[..., Any], given: SecretTree) -> None:
        session, stream = self._session, torch.cuda.current_stream()
        torch.cuda.synchronize()
        session.gather_objects(None)
        if session.rank == LEADER:
            self._graph = torch.cuda.CUDAGraph()
            self._graph.capture_begin(capture_error_mode="relaxed")
        try:
            session.gather_objects(event())[LEADER].wait(stream)
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

    def _restore(self, values: Sequence[Value]) -> None:
        """Restores what was written during the capture."""
        for cell, version in self._trace.cells.values():
            if cell.version != version:
                cell.set(self._trace.values[id(cell)])
        for cell, value in zip(self._state, values, strict=True):
            cell.set(value)
        self._gradients.restore()

    def _end_capture(self) -> None:
        """Ends a capture that failed, so that its streams can be used again."""
        if self._graph is not None:
            with suppress(RuntimeError):  # some stream was not joined
                self._graph.capture_end()

    def _drawing(self) -> AbstractContextManager[None]:
        return self._source.using(self._keys)

    @contextmanager
    def _copying(self) -> Iterator[None]:
        """Waits for all parties: a peer may still read a message that is part of a value."""
        for other in self._session.gather_objects(event()):
            other.wait(torch.cuda.current_stream())
        yield

    def summary(self) -> RecordingSummary:
        """The memory of the graph itself is torch's, and is not counted."""
        return self._summary(self._cost, calls=None, draws=None, memory=0)

    def replay(self, given: SecretTree) -> Any:
        self._num_replays += 1
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
        session.stats.accumulate(self._cost)
        return self._take_results(self._results)


def event() -> torch.cuda.Event:
    """Returns an event that occurs when all work queued by this thread is done."""
    made = torch.cuda.Event()
    made.record()
    return made
