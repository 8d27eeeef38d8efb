"""A party's work on a GPU as CUDA graphs, between which it talks to the others.

A graph cannot wait for a message. So the work up to a round is one graph, a segment, and the round
itself is done by Python's code, like everything else that is no work of the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import ROUND_BITS
from .plan import Effect, Exchange, Outgoing, Step, Tensors

if TYPE_CHECKING:
    from ...protocols.context import Context
    from ...protocols.steps import Received, Round
    from ...transport import Mesh, Spec
    from .capture import Capture

STAGED_BYTES = 1 << 22  # of a message; larger ones are copied and sent in parts


class Segments:
    """Captures a thread's work as graphs; what happens between them is Python's code.

    All of it, and the work of the host, are steps of the trace's plan.
    """

    def __init__(self, context: Context, trace: Capture) -> None:
        self._context, self._trace = context, trace
        self._first = context.streams.number
        self._graph: Any = None  # that is being captured
        self._pool: Any = None  # the memory of all of them

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Captures what this thread does on its GPU; nothing is computed."""
        self._await_messages()
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

    def exchange(self, one: Round, operation: int) -> Received:
        """Records a round; what is received is not there yet, only the memory for it."""
        received = {peer: [*map(self._empty, specs)] for peer, specs in one.receive.items()}
        relative, sent = operation - (self._first << ROUND_BITS), one.computed()
        mesh = self._context.mesh
        with self.cut():  # pinned memory is allocated outside of a capture
            self._add(SegmentExchange(mesh, one, sent, received, relative))
        return received

    def _await_messages(self) -> None:
        """Waits until all messages have left.

        When their pinned memory is freed, torch records an event in this stream: in a capture, that
        would be an event that nobody can wait for, and no pinned memory could be had any more.
        """
        mesh = self._context.mesh
        mesh.compare()  # the others have taken what was sent before their last message
        mesh.flush()

    def note(self, function: Callable[[Tensor], None], x: Tensor) -> None:
        """Records that a tensor is shown to a function."""
        with self.cut():
            self._add(Effect(function, x))

    def note_reveal(self, admit: Callable[[int], None], number: int) -> None:
        """Records that a reveal is admitted."""
        self._trace.note_reveal(admit, number)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Ends a segment; the next one begins after the block."""
        self._end()
        yield
        self._begin()

    def _add(self, step: Step) -> None:
        self._trace.plan.steps.append(step)

    def _empty(self, spec: Spec) -> Tensor:
        return torch.empty(spec.shape, dtype=spec.dtype, device=self._context.device)

    def _begin(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        with _disable_current_modes():  # torch sets its generator, which is no work of the function
            self._graph.capture_begin(pool=self._pool, capture_error_mode="relaxed")

    def _end(self) -> None:
        graph, self._graph = self._graph, None
        with _disable_current_modes():
            graph.capture_end()
        self._pool = self._pool or graph.pool()
        self._add(Segment(graph))

    def _abandon(self) -> None:
        """Ends a capture that failed, so that its stream can be used again."""
        if self._graph is not None:
            with suppress(RuntimeError), _disable_current_modes():
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
    in the same stream. Messages that are not large pass through pinned memory that is allocated
    once.
    """

    def __init__(
        self, mesh: Mesh, one: Round, sent: Tensors, places: Tensors, operation: int
    ) -> None:
        super().__init__(mesh, one, {}, places, operation)
        self.sent, small = sent, partial(_small, is_cuda=mesh.device.type == "cuda")
        self._staged = {
            peer: [PinnedCopies(x) for x in xs] for peer, xs in sent.items() if small(xs)
        }
        self.into = {p: [*map(pinned_like, xs)] for p, xs in places.items() if small(xs)}

    def _outgoing(self) -> Tensors:
        if not self._staged:
            return self.sent
        staged = {peer: [x.copy() for x in xs] for peer, xs in self._staged.items()}
        torch.cuda.current_stream().synchronize()
        return {peer: staged.get(peer, xs) for peer, xs in self.sent.items()}

    def take(self, received: Tensors) -> None:
        for peer, places in self.places.items():
            for place, tensor in zip(places, received[peer], strict=True):
                place.copy_(tensor, non_blocking=True)


class PinnedCopies(Outgoing):
    """Copies of one tensor of a GPU in pinned memory, complete when its stream is."""

    def _new(self) -> Tensor:
        return pinned_like(self.source)

    def _written(self, copy: Tensor) -> Tensor:
        return copy.copy_(self.source, non_blocking=True)


def pinned_like(x: Tensor) -> Tensor:
    """Returns pinned memory for a copy; a plan would give it other memory, which is not pinned."""
    with _disable_current_modes():
        return torch.empty(x.shape, dtype=x.dtype, pin_memory=True)


def _small(tensors: Sequence[Tensor], *, is_cuda: bool) -> bool:
    return is_cuda and sum(x.nbytes for x in tensors) <= STAGED_BYTES
