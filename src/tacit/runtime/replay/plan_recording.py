"""A function's work at one party as a plan, on a CPU, whatever the parties are connected by."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from ...fixedpoint import Value
from ...fixedpoint.flatten import tensors
from ...tensor.trace import Trace
from .buffers import SecretTree
from .plan import Draw, Plan, Work
from .plan_observer import PlanObserver
from .plan_recorder import PlanRecorder
from .public_state import PublicState
from .recording import Party, Recording
from .summary import RecordingSummary


class PlanRecording(Recording):
    """A function's work on arguments of one form, as a plan.

    The recorded call is a call like any other: it computes its results.
    """

    observer = PlanObserver
    takes_private = True

    @classmethod
    def decided(cls, session: Party, opinion: bool) -> bool:
        """What decides is public, so all parties decide alike; else their records differ."""
        return opinion

    @classmethod
    def gathered(cls, session: Party, text: str) -> list[str]:
        mesh, own = session.mesh, text.encode()
        peers = [rank for rank in range(mesh.parties) if rank != mesh.rank]
        before = mesh.stats.snapshot()
        found = mesh.exchange_bytes(dict.fromkeys(peers, own), peers) | {mesh.rank: own}
        mesh.stats.take_back(before)  # no round of the function
        return [found[rank].decode() for rank in sorted(found)]

    @classmethod
    def can_reveal(cls, session: Party) -> bool:
        return session.protocol.replays_inputs

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
        self.obstacle = self._difference(given)
        self._identity = self._context.record.digest.hex()  # equal at all parties
        self._first_results = self._take_results(self._results)
        if self._recorder.keeps_secrets:
            self.obstacle = self.obstacle or "it keeps a secret that it does not return"
        if self._recorder.keeps_revealed:
            self.obstacle = self.obstacle or "it keeps a tensor that it reveals (clone it)"
        self.obstacle = self.obstacle or self._check(state, public, random)
        self._recorder.forget()
        self._recorder.steps.forget_before()

    def advance(self) -> bool:
        return self._recorder.steps.advance()

    def _difference(self, given: SecretTree) -> str | None:
        if not self._trace.public_state.keys() <= self._seen.public_state.keys():
            return "it writes other public tensors than before"
        if self._recorder.followed_optimizers != self._seen.followed_optimizers:
            return "other optimizers step than before"
        written = self._recorder.public_state.values()
        return self._recorder.steps.difference(written) or super()._difference(given)

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
            repeats = self._recorder.repeats(random) and all(map(torch.equal, expected, found))
            if repeats and is_after():
                return None
        return "it does something that was not recorded"

    def summary(self) -> RecordingSummary:
        calls = [step for step in self.plan.steps if isinstance(step, Work | Draw)]
        draws = [step for step in calls if isinstance(step, Draw)]
        memory = self._recorder.arena.num_bytes
        return self._summary(self._cost, calls=len(calls), draws=len(draws), memory=memory)

    @property
    def plan(self) -> Plan:
        """What a replay does."""
        return self._recorder.plan

    def _is_made(self, x: Tensor) -> bool:
        return self._trace.is_new(x)

    def _make_trace(self) -> Trace:
        self._context = self._session.protocol.context
        self._recorder = PlanRecorder(self._context, self._seen)
        for buffers in (self._input_buffers, self._state_buffers):
            for value in buffers.aliases():
                self._recorder.own(*tensors(value))
        self._recorder.note_private(*self._private.buffers.tensors)
        return self._recorder

    def _drawing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _copying(self) -> AbstractContextManager[None]:
        return self._trace.on(self._session.numbers)

    def replay(self, given: SecretTree) -> Any:
        self._num_replays += 1
        record, streams = self._context.record, self._context.streams
        public = self._trace.public_state.values()
        numbers = self._recorder.steps.inputs
        record.absorb("replay", (self._identity, *given.secrets, *public, *numbers))
        self._input_buffers.copy_from(given.values)
        self._private.copy_from(given.others)
        first, streams.number = streams.number, streams.number + self.plan.num_calls
        self.plan.run(first)
        record.mark_compared()
        return self._take_results(self._results)
