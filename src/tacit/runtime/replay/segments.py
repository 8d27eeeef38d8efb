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
from ...transport import SHORT_BYTES
from .ahead_messages import SegmentRound, take_as_they_come
from .plan import Effect, Outgoing, Step, Tensors

if TYPE_CHECKING:
    from ...protocols.context import Context
    from ...protocols.steps import Received, Round
    from ...transport import Mesh, Spec
    from .capture import Capture

STAGED_BYTES = 1 << 22  # of a message; larger ones are copied and sent in parts
PINNED_BYTES = 1 << 22  # of pinned memory that are allocated at a time
ALIGNED_BYTES = 256  # between the starts of tensors there
HEAD_BYTES = 1 << 12  # of a message, at most, that is short with it


class Segments:
    """Captures a thread's work as graphs; what happens between them is Python's code.

    All of it, and the work of the host, are steps of the trace's plan.
    """

    def __init__(self, context: Context, trace: Capture) -> None:
        self._context, self._trace = context, trace
        self._first = context.streams.number
        self._graph: Any = None  # that is being captured
        self._pool: Any = None  # the memory of all of them
        self._pinned: Tensor | None = None  # bytes for short messages, that are left

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
            context = self._context
            has_lanes = lambda: bool(context.lanes or context.parked)  # noqa: E731
            take_as_they_come(self._trace.plan.steps, context.mesh, has_lanes)
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
        if all(map(is_short, (*sent.values(), *received.values()))):
            self._exchange_short(mesh, one, sent, received, relative)
        else:
            with self.cut():  # pinned memory is allocated outside of a capture
                self._add(SegmentExchange(mesh, one, sent, received, relative))
        return received

    def _exchange_short(
        self, mesh: Mesh, one: Round, sent: Tensors, received: Tensors, operation: int
    ) -> None:
        """Records a round of short messages: their copies are part of the segments around it."""
        own, places = (
            {peer: [*map(self._pinned_like, xs)] for peer, xs in tensors.items()}
            for tensors in (sent, received)
        )
        _copy_all(own, sent)
        with self.cut():
            self._add(ShortExchange(mesh, one, own, places, operation))
        _copy_all(received, places)

    def _pinned_like(self, x: Tensor) -> Tensor:
        """Returns pinned memory for a short message, which stays as long as the plan does."""
        if self._pinned is None or len(self._pinned) < x.nbytes:
            with self.cut():
                self._pinned = pinned((PINNED_BYTES,), torch.uint8)
        rounded = -(-x.nbytes // ALIGNED_BYTES) * ALIGNED_BYTES
        with _disable_current_modes():
            taken, self._pinned = self._pinned[: x.nbytes], self._pinned[rounded:]
            return taken.view(x.dtype).view(x.shape)

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


class ShortExchange(SegmentRound):
    """A round of short messages, in pinned memory that the segments around it write and read."""

    def begin(self, first: int) -> None:
        if self.sent:
            torch.cuda.current_stream().synchronize()
        super().begin(first)


class SegmentExchange(SegmentRound):
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
        self.into = {
            peer: [pinned(x.shape, x.dtype) for x in xs] for peer, xs in places.items() if small(xs)
        }

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
        return pinned(self.source.shape, self.source.dtype)

    def _written(self, copy: Tensor) -> Tensor:
        return copy.copy_(self.source, non_blocking=True)


def pinned(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns pinned memory; a plan would give a tensor other memory, which is not pinned."""
    with _disable_current_modes():
        return torch.empty(tuple(shape), dtype=dtype, pin_memory=True)


def is_short(tensors: Sequence[Tensor]) -> bool:
    """Whether a message of these, on a GPU, is sent at once with its head (`SHORT_BYTES`)."""
    is_small = sum(x.nbytes for x in tensors) <= SHORT_BYTES - HEAD_BYTES
    return is_small and all(x.is_cuda for x in tensors)


def _copy_all(to: Tensors, source: Tensors) -> None:
    """Queues copies of what is sent or received; no program sees them."""
    with _disable_current_modes():
        for peer, places in to.items():
            for place, tensor in zip(places, source[peer], strict=True):
                place.copy_(tensor, non_blocking=True)


def _small(tensors: Sequence[Tensor], *, is_cuda: bool) -> bool:
    return is_cuda and sum(x.nbytes for x in tensors) <= STAGED_BYTES
