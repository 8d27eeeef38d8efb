"""A function's work at one party on a GPU of its own, whatever the parties are connected by.

See NOTE [fresh masks] in graph.py: the keys of all recorded kernels are new in each replay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...tensor.trace import Trace
from .buffers import SecretTree
from .graph import Capture
from .own_recording import OwnRecording
from .segments import Segments
from .summary import RecordingSummary

log = logging.getLogger("tacit")


class SegmentRecording(OwnRecording):
    """A function's work on arguments of one form, as graphs between rounds."""

    def first_results(self, given: SecretTree) -> Any:
        """The capture computed nothing: its first replay does, or the function if it failed."""
        if self.obstacle is None:
            return self.replay(given)
        args, kwargs = given.with_secrets(self._session.numbers, given.values)
        return self._function(*args, **kwargs)

    def _record(self, function: Callable[..., Any], given: SecretTree) -> None:
        self._function = function
        self._source = self._session.protocol.context.streams
        self._keys = self._source.blank_keys()
        before = [cell.value for cell in self._state]
        obstacle = self._captured(function, given)
        told = self.gathered(self._session, f"{self._source.number} {obstacle or ''}")
        # A party that failed has made fewer calls than the others.
        self._source.number = max(int(one.split(" ", 1)[0]) for one in told)
        self.obstacle = next((why for one in told if (why := one.split(" ", 1)[1])), None)
        if self.obstacle is not None:
            self._restore(before)
        self._trace.forget()
        self._identity = self._session.protocol.context.record.digest.hex()

    def _captured(self, function: Callable[..., Any], given: SecretTree) -> str | None:
        """Captures the function; returns why that failed, or None."""
        try:
            with self._segments.recording():
                self._results = self._run(function, given)
        except RuntimeError as error:
            log.info("repeated: why a call cannot be captured", exc_info=error)
            return f"it cannot be captured ({type(error).__name__})"
        return self._difference(given)

    def _make_trace(self) -> Trace:
        trace = Capture(self._session.device)
        self._segments = Segments(self._session.protocol.context, trace)
        return trace

    def _drawing(self) -> AbstractContextManager[None]:
        return self._source.using(self._keys)

    def _copying(self) -> AbstractContextManager[None]:
        return nullcontext()

    def summary(self) -> RecordingSummary:
        """The memory of the graphs themselves is torch's, and is not counted."""
        return self._summary(self._cost, calls=None, draws=None, memory=0)

    def replay(self, given: SecretTree) -> Any:
        self._num_replays += 1
        context, stats = self._session.protocol.context, self._session.stats
        context.record.absorb("replay", (self._identity, *given.secrets))
        self._input_buffers.copy_from(given.values)
        first = self._source.new_number()
        self._source.renew(self._keys, first)
        self._source.number += self._segments.num_calls
        before = stats.snapshot()
        self._segments.run(first)
        self._cost = stats.snapshot().accumulate(before, -1)
        context.record.mark_compared()
        return self._take_results(self._results)
