"""A function's work at one party on a GPU of its own, whatever the parties are connected by."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .buffers import SecretTree
from .capture import Capture, SegmentObserver
from .captured_recording import CapturedRecording
from .memory_use import MemoryUse
from .merged_segments import MergedSegments
from .own_recording import OwnRecording
from .plan_merging import merged_order
from .segment_capture import SegmentCapture
from .segments import Segments
from .step_order import Moment
from .summary import RecordingSummary
from .told import decode_outcome

log = logging.getLogger("tacit")

_SPARE = 0.25  # of the GPU's free memory, which graphs with merged rounds may take


class SegmentRecording(OwnRecording, CapturedRecording):
    """A function's work on arguments of one form, as graphs between rounds."""

    observer = SegmentObserver
    capture = SegmentCapture
    _trace: SegmentCapture

    def _capture(self, function: Callable[..., Any], given: SecretTree) -> None:
        obstacle = self._captured(function, given)
        told = self.gathered(self._session, f"{self._source.number} {obstacle or ''}")
        outcomes = [decode_outcome(party, text) for party, text in enumerate(told)]
        # A party that failed has made fewer calls than the others.
        self._source.number = max(one.number for one in outcomes)
        self.obstacle = next((one.obstacle for one in outcomes if one.obstacle), None)
        self._rounds_of_call = self._trace.plan.num_rounds
        if self.obstacle is None:
            self._trace.drop_constant_work()
            self._merge_rounds()
            self._segments.take_as_they_come()
        self._trace.memory = MemoryUse(self._trace.arena)  # the noted steps are not needed any more

    def _merge_rounds(self) -> None:
        """Captures the function's steps once more if that takes fewer rounds."""
        trace, session = self._trace, self._session
        with _disable_current_modes():
            fixed = trace.arena.used_blocks() | trace.memory.on_gpu.held().keys()
        spare = int(_SPARE * torch.cuda.mem_get_info()[0])
        found = merged_order(trace.memory, fixed, partial(self.gathered, session), spare)
        if found is not None and found.is_shorter:
            self.obstacle = self.first_of_all(session, self._recaptured(found.moments))

    def _recaptured(self, order: Sequence[Moment]) -> str | None:
        """Captures the noted steps in another order; returns why that failed, or None."""
        try:
            device = self._session.protocol.context.device
            MergedSegments(self._trace, self._segments, device).capture(order)
        except RuntimeError as error:
            return _failure(error)
        return None

    def _captured(self, function: Callable[..., Any], given: SecretTree) -> str | None:
        """Captures the function; returns why that failed, or None."""
        try:
            with self._segments.recording():
                self._results = self._run(function, given)
        except RuntimeError as error:
            return _failure(error)
        return self._difference(given)

    def summary(self) -> RecordingSummary:
        """The memory of the graphs themselves is torch's, and is not counted."""
        rounds = self._rounds_of_call
        return self._summary(self._cost, calls=None, draws=None, memory=0, rounds_of_call=rounds)

    def _make_trace(self) -> Capture:
        trace = super()._make_trace()
        assert isinstance(trace, SegmentCapture)
        self._segments = Segments(self._session.protocol.context, trace)
        return trace

    def _before_download(self) -> None:
        with self._segments.cut():
            pass

    def _copying(self) -> AbstractContextManager[None]:
        return self._trace.on(self._session.numbers)

    def _do(self, first: int) -> None:
        """What the replay before has left in pinned memory is read when its work is done."""
        stats = self._session.stats
        torch.cuda.current_stream().synchronize()
        before = stats.snapshot()
        self._trace.plan.run(first)
        self._cost = stats.snapshot().accumulate(before, -1)
        self._session.protocol.context.record.mark_compared()


def _failure(error: RuntimeError) -> str:
    """Returns the obstacle that an error of a capture is; the log has the error itself."""
    log.info("repeated: why a call cannot be captured", exc_info=error)
    return f"it cannot be captured ({type(error).__name__})"
