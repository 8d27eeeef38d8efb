"""A party's work on a GPU as CUDA graphs, between which it talks to the others.

A graph cannot wait for a message. So the work up to a round is one graph, a segment, and the round
itself is done by Python's code, like everything else that is no work of the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from .plan import ROUND_BITS, Effect, Exchange, Step, Tensors

if TYPE_CHECKING:
    from ...protocols.context import Context
    from ...protocols.steps import Received, Round
    from ...tensor.trace import Trace
    from ...transport import Spec


class Segments:
    """Records a thread's work as a list of graphs and what happens between them.

    num_calls: how many calls of operations the function makes.
    """

    def __init__(self, context: Context, trace: Trace) -> None:
        self.steps: list[Step] = []
        self.num_calls = 0
        self._context, self._trace = context, trace
        self._first = context.streams.number
        self._graph: Any = None  # that is being captured
        self._pool: Any = None  # the memory of all of them

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Captures what this thread does on its GPU; nothing is computed."""
        torch.cuda.synchronize()
        self._context.recorder = self
        try:
            self._begin()
            yield
            self._end()
        except BaseException:
            self._abandon()
            raise
        finally:
            self._context.recorder = None
            self.num_calls = self._context.streams.number - self._first

    def exchange(self, one: Round, operation: int) -> Received:
        """Records a round; what is received is not there yet, only the memory for it."""
        received = {peer: [*map(self._empty, specs)] for peer, specs in one.receive.items()}
        relative = operation - (self._first << ROUND_BITS)
        self._cut(SegmentExchange(self._context.mesh, one, one.computed(), received, relative))
        return received

    def note(self, function: Callable[[Tensor], None], x: Tensor) -> None:
        """Records that a tensor is shown to a function."""
        self._cut(Effect(function, x))

    def note_reveal(self, admit: Callable[[int], None], number: int) -> None:
        """Refuses: what a replay reveals would not be copied to the host."""
        self._trace.refuse("it reveals")

    def run(self, first: int) -> None:
        """Does all of it; `first` is the number of the function's first call."""
        for step in self.steps:
            step(first)

    def _empty(self, spec: Spec) -> Tensor:
        return torch.empty(spec.shape, dtype=spec.dtype, device=self._context.device)

    def _cut(self, step: Step) -> None:
        """Ends a segment, adds a step of Python's code, and begins the next segment."""
        self._end()
        self.steps.append(step)
        self._begin()

    def _begin(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        with _disable_current_modes():  # torch sets its generator, which is no work of the function
            self._graph.capture_begin(pool=self._pool, capture_error_mode="relaxed")

    def _end(self) -> None:
        graph, self._graph = self._graph, None
        with _disable_current_modes():
            graph.capture_end()
        self._pool = self._pool or graph.pool()
        self.steps.append(Segment(graph))

    def _abandon(self) -> None:
        """Ends a capture that failed, so that its stream can be used again."""
        if self._graph is not None:
            with suppress(RuntimeError):
                self._graph.capture_end()


class Segment:
    """The work between two rounds."""

    def __init__(self, graph: torch.cuda.CUDAGraph) -> None:
        self._graph = graph

    def __call__(self, first: int) -> None:
        self._graph.replay()


class SegmentExchange(Exchange):
    """A round between two segments.

    What is sent goes to the host before the next segment can write to its memory: both are queued
    in the same stream.
    """

    def _outgoing(self) -> Tensors:
        return self.sent
