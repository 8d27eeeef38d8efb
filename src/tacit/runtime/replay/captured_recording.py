"""What recordings of work on a GPU have in common: graphs, and what the host does before and after.

See NOTE [fresh masks] in graph.py: the keys of all recorded kernels are new in each replay.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch

from ...fixedpoint import Value
from ...fixedpoint.flatten import tensors
from ...transport import Tally
from .buffers import SecretTree
from .capture import Capture, GraphObserver
from .plan import Plan
from .public_state import PublicState
from .recording import Recording
from .summary import RecordingSummary


class CapturedRecording(Recording):
    """A function's work, captured. A capture computes nothing: the first replay does."""

    observer = GraphObserver
    capture: ClassVar[type[Capture]] = Capture
    takes_plain = True
    _trace: Capture
    _cost: Tally
    _results: SecretTree

    def first_results(self, given: SecretTree) -> Any:
        if self.obstacle is None:
            return self.replay(given)
        args, kwargs = given.with_secrets(self._session.numbers, given.values)
        return self._function(*args, **kwargs)

    def _record(self, function: Callable[..., Any], given: SecretTree) -> None:
        self._function = function
        self._source = self._session.protocol.context.streams
        self._keys = self._source.blank_keys()
        values, random = [cell.value for cell in self._state], torch.get_rng_state()
        public = PublicState([*self._seen.public_state.values()])
        try:
            self._capture(function, given)
            if self.obstacle is not None:
                self._undo(values)
        except BaseException:
            self._undo(values)
            raise
        finally:
            public.restore()
            torch.set_rng_state(random)
        self._trace.drop_constant_work()
        self._trace.forget()
        self._steps.end_recording()
        self._identity = self._session.protocol.context.record.digest.hex()
        self._num_calls = self._trace.num_calls

    @abstractmethod
    def _capture(self, function: Callable[..., Any], given: SecretTree) -> None:
        """Captures the function, and sets `obstacle`, the same at all parties."""

    def _undo(self, values: Sequence[Value]) -> None:
        self._restore(values)
        self._steps.undo()

    def _difference(self, given: SecretTree) -> str | None:
        self._trace.find_guards()
        if self._trace.keeps_revealed:
            return "it keeps a tensor that it reveals (clone it)"
        return super()._difference(given)

    def _is_made(self, x: torch.Tensor) -> bool:
        return self._trace.is_new(x)

    def _make_trace(self) -> Capture:
        context = self._session.protocol.context
        trace = self.capture(context, self._seen, self._before_download)
        for buffers in (self._input_buffers, self._state_buffers):
            for value in buffers.aliases():
                trace.own(*tensors(value))
        trace.note_buffers(*self._arguments.buffers.tensors)
        return trace

    @abstractmethod
    def _before_download(self) -> None:
        """Ends the work of the GPU that the host waits for."""

    def _drawing(self) -> AbstractContextManager[None]:
        return self._source.using(self._keys)

    def summary(self) -> RecordingSummary:
        """The memory of the graphs themselves is torch's, and is not counted."""
        return self._summary(self._cost, calls=None, draws=None, memory=0)

    @property
    def plan(self) -> Plan:
        """What a replay does; graphs are steps of it."""
        return self._trace.plan

    def replay(self, given: SecretTree) -> Any:
        self._num_replays += 1
        record = self._session.protocol.context.record
        public = [*self._trace.public_state.values(), *(given.others[i] for i in self._alike)]
        told = (self._identity, *given.secrets, *public, *self._steps.inputs)
        record.absorb("replay", told)
        self._input_buffers.copy_from(given.values)
        first = self._source.new_number()
        self._source.renew(self._keys, first)
        self._source.number += self._num_calls
        with self._complete():
            self._do(first)
        return self._take_results(self._results)

    @abstractmethod
    def _do(self, first: int) -> None:
        """Does all of the recorded work; `first` is the number of the function's first call."""
