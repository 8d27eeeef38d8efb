"""A function's work at one party as a plan, on a CPU, whatever the parties are connected by."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...fixedpoint import Value
from ...fixedpoint.flatten import tensors
from .buffers import SecretTree, equal_public
from .optimizer_observer import OptimizerObserver
from .own_recording import OwnRecording
from .plan import Draw, Plan, Work
from .plan_merging import merge_rounds
from .plan_observer import PlanObserver
from .plan_recorder import PlanRecorder
from .public_state import PublicState
from .summary import RecordingSummary


class PlanRecording(OwnRecording):
    """A function's work on arguments of one form, as a plan.

    The recorded call is a call like any other: it computes its results.
    """

    observer = PlanObserver
    takes_plain = True
    can_verify = True

    def first_results(self, given: SecretTree) -> Any:
        return self._first_results

    def _record(self, function: Callable[..., Any], given: SecretTree) -> None:
        random = torch.get_rng_state()
        state, written = self._state_buffers.clones(), [*self._seen.public_state.values()]
        public = PublicState(written)
        before = self._session.stats.snapshot()
        with self._recorder.recording():
            self._results = self._run(function, given)
        self._cost = self._session.stats.snapshot().accumulate(before, -1)
        self._recorder.find_guards()
        self.obstacle = self._difference(given)
        self._identity = self._context.record.digest.hex()  # equal at all parties
        self._first_results = self._take_results(self._results)
        if self._recorder.keeps_secrets:
            self.obstacle = self.obstacle or "it keeps a secret that it does not return"
        if self._recorder.keeps_revealed:
            self.obstacle = self.obstacle or "it keeps a tensor that it reveals (clone it)"
        merge_rounds(self._recorder, partial(self.gathered, self._session))
        self._recorder.drop_guards()
        self.obstacle = self.obstacle or self._check(state, public, random)
        self._recorder.forget()
        self._steps.end_recording()

    def _check(self, state: list[Value], public: PublicState, random: Tensor) -> str | None:
        """Returns an obstacle unless the plan does what the call did, from the state before it."""
        outputs, results = self._output_buffers, self._public_results.buffers
        secrets = [*outputs.aliases(), *self._state_buffers.aliases()]
        found = [*results.tensors, *(part for value in secrets for part in tensors(value))]
        expected = [x.clone() for x in found]
        results.spoil()
        outputs.spoil()
        self._state_buffers.copy_from(state)
        with public.put_back() as is_after:
            repeats = self._recorder.repeats(random) and all(map(equal_public, expected, found))
            if repeats and is_after():
                return None
        return "it does something that was not recorded"

    def summary(self) -> RecordingSummary:
        calls = [step for step in self.plan.steps if isinstance(step, Work | Draw)]
        draws = [step for step in calls if isinstance(step, Draw)]
        return self._summary(
            self._cost,
            calls=len(calls),
            draws=len(draws),
            memory=self._recorder.arena.num_bytes,
            rounds=self.plan.num_rounds,
        )

    @property
    def plan(self) -> Plan:
        """What a replay does."""
        return self._recorder.plan

    def _is_made(self, x: Tensor) -> bool:
        return self._trace.is_new(x)

    def _make_trace(self) -> OptimizerObserver:
        self._context = self._session.protocol.context
        self._recorder = PlanRecorder(self._context, self._seen)
        for buffers in (self._input_buffers, self._state_buffers):
            for value in buffers.aliases():
                self._recorder.own(*tensors(value))
        self._recorder.note_buffers(*self._arguments.buffers.tensors)
        return self._recorder

    def _drawing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _copying(self) -> AbstractContextManager[None]:
        return self._trace.on(self._session.numbers)

    def replay(self, given: SecretTree) -> Any:
        self._num_replays += 1
        record, streams = self._context.record, self._context.streams
        public = [*self._trace.public_state.values(), *(given.others[i] for i in self._alike)]
        told = (self._identity, *given.secrets, *public, *self._steps.inputs)
        record.absorb("replay", told)
        self._input_buffers.copy_from(given.values)
        first, streams.number = streams.number, streams.number + self.plan.num_calls
        with self._complete():
            self.plan.run(first)
        record.mark_compared()
        return self._take_results(self._results)
