"""A function's work at all parties as one CUDA graph, replayed without running Python code.

NOTE [fresh masks]: a recorded kernel draws its masks from a key in a buffer at a fixed address,
with the operation number of the recording. Before each replay every key in these buffers is
replaced by a new one, drawn from a stream for new keys at an operation number that nothing else
uses. So no mask is drawn twice, and all holders of a key still draw the same masks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .buffers import SecretTree
from .capture_end import has_work_at_its_end
from .captured_recording import CapturedRecording
from .recording import Party

if TYPE_CHECKING:
    from ...protocols.steps import Received, Round
    from ...transport import Mesh
    from .capture import Capture

LEADER_SECONDS = 1.0  # that the others wait for it to end a capture that failed
LEADER = 0  # the party on whose stream the graph is recorded and started


class GraphRecording(CapturedRecording):
    """A function's work at all parties, captured as a graph, with each one's work on the host."""

    @classmethod
    def decided(cls, session: Party, opinion: bool) -> bool:
        return all(session.gather_objects(opinion))

    @classmethod
    def gathered(cls, session: Party, text: str) -> list[str]:
        return session.gather_objects(text)

    def _capture(self, function: Callable[..., Any], given: SecretTree) -> None:
        session, context = self._session, self._session.protocol.context
        self._graph: torch.cuda.CUDAGraph | None = None
        self._is_begun = False  # the step that starts the graph is among those of the plan
        before = session.stats.snapshot()
        context.recorder = _Rounds(context.mesh, self._trace)
        try:
            self._capture_graph(function, given)
        finally:
            context.recorder = None
        self._before_download()
        self.obstacle = self.first_of_all(session, self._difference(given))
        self._cost = session.stats.take_back(before)

    def _before_download(self) -> None:
        """Adds the step that starts the graph: what follows waits for it."""
        if not self._is_begun:
            self._trace.plan.steps.append(self._start)
        self._is_begun, self._trace.may_upload = True, False

    def _capture_graph(self, function: Callable[..., Any], given: SecretTree) -> None:
        session, stream = self._session, torch.cuda.current_stream()
        torch.cuda.synchronize()
        has_ended: threading.Event = session.gather_objects(threading.Event())[LEADER]
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
            self._end_capture(has_ended)
            raise
        if self._graph is not None:
            self._graph.capture_end()
        session.gather_objects(None)

    def _end_capture(self, has_ended: threading.Event) -> None:
        """Ends a capture that failed, or waits until the leader does, so that streams are usable.

        If this party fails alone, the leader does not end it, and the run ends.
        """
        if self._graph is None:
            has_ended.wait(LEADER_SECONDS)
            return
        with suppress(RuntimeError):  # some stream was not joined
            has_work_at_its_end(self._graph)
        has_ended.set()

    @contextmanager
    def _copying(self) -> Iterator[None]:
        """Waits for all parties: a peer may still read a message that is part of a value."""
        for other in self._session.gather_objects(event()):
            other.wait(torch.cuda.current_stream())
        with self._trace.on(self._session.numbers):
            yield

    def _do(self, first: int) -> None:
        self._trace.plan.run(first)
        self._session.stats.accumulate(self._cost)

    def _start(self, first: int) -> None:
        """Does the work of all parties on the GPU."""
        session, stream = self._session, torch.cuda.current_stream()
        befores = session.gather_objects(event())
        if self._graph is not None:
            for before in befores:
                before.wait(stream)
            self._graph.replay()
        session.gather_objects(event())[LEADER].wait(stream)


class _Rounds:
    """Passes messages on as they are: they are handed over while the graph is captured."""

    def __init__(self, mesh: Mesh, trace: Capture) -> None:
        self._mesh, self._trace = mesh, trace

    def exchange(self, one: Round, operation: int) -> Received:
        """Exchanges a round."""
        return self._mesh.exchange(one.send, one.receive, operation=operation, ahead=one.ahead)

    def note(self, function: Callable[[Tensor], None], x: Tensor) -> None:
        """Calls the function: what it changes is no part of the graph."""
        function(x)

    def note_reveal(self, admit: Callable[[int], None], number: int) -> None:
        """Records that a reveal is admitted."""
        self._trace.note_reveal(admit, number)


def event() -> torch.cuda.Event:
    """Returns an event that occurs when all work queued by this thread is done."""
    made = torch.cuda.Event()
    made.record()
    return made
