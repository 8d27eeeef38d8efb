"""A function's work at one party on a GPU of its own, whatever the parties are connected by."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from .buffers import SecretTree
from .capture import Capture, SegmentObserver
from .captured_recording import CapturedRecording
from .own_recording import OwnRecording
from .segments import Segments
from .told import decode_outcome

log = logging.getLogger("tacit")


class SegmentRecording(OwnRecording, CapturedRecording):
    """A function's work on arguments of one form, as graphs between rounds."""

    observer = SegmentObserver

    def _capture(self, function: Callable[..., Any], given: SecretTree) -> None:
        obstacle = self._captured(function, given)
        told = self.gathered(self._session, f"{self._source.number} {obstacle or ''}")
        outcomes = [decode_outcome(party, text) for party, text in enumerate(told)]
        # A party that failed has made fewer calls than the others.
        self._source.number = max(one.number for one in outcomes)
        self.obstacle = next((one.obstacle for one in outcomes if one.obstacle), None)

    def _captured(self, function: Callable[..., Any], given: SecretTree) -> str | None:
        """Captures the function; returns why that failed, or None."""
        try:
            with self._segments.recording():
                self._results = self._run(function, given)
        except RuntimeError as error:
            log.info("repeated: why a call cannot be captured", exc_info=error)
            return f"it cannot be captured ({type(error).__name__})"
        return self._difference(given)

    def _make_trace(self) -> Capture:
        trace = super()._make_trace()
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
