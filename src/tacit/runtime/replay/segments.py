"""A party's work on a GPU as CUDA graphs, between which it talks to the others.

A graph cannot wait for a message. So the work up to a round is one graph, a segment, and the round
itself is done by Python's code, like everything else that is no work of the GPU. A function is
captured in the order of its code. Where rounds can be merged, its steps are then captured once more
in another order (`merged_segments.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import ROUND_BITS
from .ahead_messages import SegmentRound, take_as_they_come
from .capture_end import has_work_at_its_end
from .plan import Begin, Effect, Finish, Step, Tensors
from .segment_rounds import PinnedExchange, SegmentExchange, is_pinned, pinned

if TYPE_CHECKING:
    from ...protocols.context import Context
    from ...protocols.steps import Received, Round
    from ...transport import Spec
    from .segment_capture import SegmentCapture

PINNED_BYTES = 1 << 22  # of pinned memory that are allocated at a time
ALIGNED_BYTES = 256  # between the starts of tensors there


class Segments:
    """Captures a thread's work as graphs; what happens between them is Python's code.

    All of it, and the work of the host, are steps of the trace's plan.
    """

    def __init__(self, context: Context, trace: SegmentCapture) -> None:
        self._context, self._trace = context, trace
        self._first = context.streams.number
        self._graph: Any = None  # that is being captured
        self._pool: Any = None  # the memory of all of them
        self._workless: list[Any] = []  # graphs without work, in which memory was allocated
        self._pinned: Tensor | None = None  # bytes for short messages, that are left
        self._awaits_work = False  # a segment begins with its first work, and not at once

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Captures what this thread does on its GPU; nothing is computed."""
        with self._capturing():
            self._context.recorder = self
            try:
                self.resume()
                yield
            finally:
                self._context.recorder = None

    @contextmanager
    def recapturing(self) -> Iterator[None]:
        """Captures work in the place of what was recorded, in its memory.

        A segment begins with `resume`, and no empty one is captured. Pinned memory of the recorded
        rounds is freed before: in a capture, it would be as `_await_messages` says.
        """
        graphs: list[Any] = [x for x in self._trace.plan.steps if isinstance(x, Segment)]
        graphs, self._workless = graphs + self._workless, []
        self._trace.plan.steps = []
        self._awaits_work = True
        with self._capturing():
            yield
        graphs.clear()  # as long as one of them was there, their memory was one pool

    @contextmanager
    def _capturing(self) -> Iterator[None]:
        self._await_messages()
        torch.cuda.synchronize()
        try:
            yield
            self._end()
        except BaseException:
            self._abandon()
            raise

    def take_as_they_come(self) -> None:
        """Lets the rounds of the plan, which stay as they are, take what is dealt as it comes."""
        context = self._context
        has_lanes = lambda: bool(context.lanes or context.parked)  # noqa: E731
        take_as_they_come(self._trace.plan.steps, context.mesh, has_lanes)

    def exchange(self, one: Round, operation: int) -> Received:
        """Records a round; what is received is not there yet, only the memory for it."""
        received = {peer: [*map(self._empty, specs)] for peer, specs in one.receive.items()}
        relative, sent = operation - (self._first << ROUND_BITS), one.computed()
        self._trace.note_round(one, sent, received, relative)
        self.add_round(one, sent, received, relative)
        return received

    def add_round(self, one: Round, sent: Tensors, received: Tensors, operation: int) -> None:
        """Adds a round that is waited for at once."""
        exchange = self._exchange(one, sent, received, operation)
        with self.cut():
            self._add(exchange)
        self._take(exchange, received)

    def begin_round(
        self, one: Round, sent: Tensors, received: Tensors, operation: int
    ) -> SegmentRound:
        """Adds the sending of a round; the work that follows is done until its messages come."""
        exchange = self._exchange(one, sent, received, operation)
        with self.cut():
            self._add(Begin(exchange))
        return exchange

    def finish_round(self, exchange: SegmentRound, received: Tensors) -> None:
        """Adds the receiving of a round that was begun."""
        with self.cut():
            self._add(Finish(exchange))
        self._take(exchange, received)

    def _exchange(
        self, one: Round, sent: Tensors, received: Tensors, operation: int
    ) -> SegmentRound:
        """Returns a round. Copies to and from pinned memory are part of the segments around it."""
        mesh = self._context.mesh
        if not all(is_pinned(one, tensors, mesh) for tensors in (sent, received)):
            return SegmentExchange(mesh, one, sent, received, operation)
        own, places = (
            {peer: [*map(self._pinned_like, xs)] for peer, xs in tensors.items()}
            for tensors in (sent, received)
        )
        self._copy_all(own, sent)
        return PinnedExchange(mesh, one, own, places, operation)

    def _take(self, exchange: SegmentRound, received: Tensors) -> None:
        if isinstance(exchange, PinnedExchange):
            self._copy_all(received, exchange.places)

    def _copy_all(self, to: Tensors, source: Tensors) -> None:
        """Captures copies of what is sent or received; no program sees them."""
        for place, tensor in (
            pair for peer in to for pair in zip(to[peer], source[peer], strict=True)
        ):
            self.resume()
            with _disable_current_modes():
                place.copy_(tensor, non_blocking=True)

    def _pinned_like(self, x: Tensor) -> Tensor:
        """Returns pinned memory for a tensor of a message, which stays as long as the plan does."""
        if self._pinned is None or len(self._pinned) < x.nbytes:
            with self.cut():
                self._pinned = pinned((max(PINNED_BYTES, x.nbytes),), torch.uint8)
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
            self._trace.note_effect(Effect(function, (x,)))

    def note_reveal(self, admit: Callable[[int], None], number: int) -> None:
        """Records that a reveal is admitted."""
        self._trace.note_reveal(admit, number)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Ends a segment; the next one begins after the block."""
        self._end()
        yield
        if not self._awaits_work:
            self.resume()

    def _add(self, step: Step) -> None:
        self._trace.plan.steps.append(step)

    def _empty(self, spec: Spec) -> Tensor:
        return torch.empty(spec.shape, dtype=spec.dtype, device=self._context.device)

    def resume(self) -> None:
        """Begins a segment, unless one is being captured."""
        if self._graph is not None:
            return
        self._graph = torch.cuda.CUDAGraph()
        with _disable_current_modes():  # torch sets its generator, which is no work of the function
            self._graph.capture_begin(pool=self._pool, capture_error_mode="relaxed")

    def _end(self) -> None:
        graph, self._graph = self._graph, None
        if graph is None:
            return
        has_work = has_work_at_its_end(graph)
        self._pool = self._pool or graph.pool()
        if has_work:
            self._add(Segment(graph))
        else:
            self._workless.append(graph)  # its memory is that of the pool

    def _abandon(self) -> None:
        """Ends a capture that failed, so that its stream can be used again."""
        if self._graph is not None:
            with suppress(RuntimeError):
                has_work_at_its_end(self._graph)


class Segment:
    """The work between two rounds."""

    def __init__(self, graph: torch.cuda.CUDAGraph) -> None:
        self._graph = graph

    def __call__(self, first: int) -> None:
        self._graph.replay()
