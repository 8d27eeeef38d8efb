"""Functions that are called many times with arguments of the same form.

Between two kernels, Python's work takes longer than a small kernel does. The first two calls of a
repeated function run normally. If they show that it depends on secrets only, the third call is
recorded, and later calls replay it without the function's code: parties that share a GPU as one
graph (`graph.py`), a party on CPUs as a plan of its own (`plan.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any

from ...fixedpoint.flatten import canonical_limit
from ...kernels.backend import load_native
from ...tensor.secret import Cell
from ...tensor.trace import Trace
from .buffers import CallSignature, SecretTree
from .environment import Environment
from .graph import GraphRecording
from .plan_recording import PlanRecording
from .recording import Recording, compute
from .summary import RecordingSummary, described

if TYPE_CHECKING:
    from ..session import Session

log = logging.getLogger("tacit")

MOST_RECORDINGS = 8
MOST_UNUSED = 4  # recordings in a row that no later call fitted


class Repeated:
    """A callable like the function, which records and replays its work where possible."""

    def __init__(self, session: Session, function: Callable[..., Any]) -> None:
        self._session, self._function = session, function
        self._specializations: list[Specialization] = []
        self._obstacle: str | None = None
        self._kind: type[Recording] | None = None
        self._is_decided = self._has_dropped = False

    @property
    def recordings(self) -> list[RecordingSummary]:
        """What each recording does in a replay, the newest first."""
        made = [one.recording for one in self._specializations]
        return [one.summary() for one in made if one is not None]

    def summary(self) -> str:
        """Returns what is recorded, as text: calls, rounds, bytes, memory; or why nothing is."""
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        return described(name, self.recordings, self._obstacle)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = self._session
        if self._obstacle is not None or self._is_within_another():
            return self._function(*args, **kwargs)
        if not self._is_decided:
            self._kind, self._is_decided = _kind(session), True
            if self._kind is None:
                self._obstacle = "a party, the protocol or a stored run does not allow it"
        if self._kind is None:
            return self._function(*args, **kwargs)
        given = SecretTree.of((args, kwargs))
        found = next((one for one in self._specializations if one.signature.fits(given)), None)
        if found is None:
            signature = CallSignature(given, self._known_private(given))
            found = Specialization(session, self._kind, self._function, signature)
            self._keep(found)
        result = found.call(given, args, kwargs)
        if found.obstacle is not None:
            self._obstacle, self._specializations = found.obstacle, []
            if session.rank == 0:
                log.warning("repeated: %s: it runs as it is", self._obstacle)
        return result

    def _known_private(self, given: SecretTree) -> Set[int] | None:
        """Which plain arguments calls of this form share, if that was observed."""
        assert self._kind is not None
        if not self._kind.takes_private:
            return frozenset()
        known = [one.signature for one in self._specializations]
        return next((one.private for one in known if one.has_form(given)), None)

    def _keep(self, new: Specialization) -> None:
        """Adds a specialization, and drops the oldest of too many."""
        self._specializations.insert(0, new)
        if len(self._specializations) > MOST_RECORDINGS:
            self._specializations.pop()
            if self._session.rank == 0 and not self._has_dropped:
                log.warning(
                    "repeated: it is called with arguments of more than %d forms: the recording "
                    "of the oldest is dropped",
                    MOST_RECORDINGS,
                )
            self._has_dropped = True

    def _is_within_another(self) -> bool:
        """Whether another repeated function, `session.map` or a parallel block is running."""
        if self._session.operations is None:
            return False
        context = self._session.protocol.context
        traced = self._session.numbers.trace is not None
        return traced or context.lanes is not None or context.group is not None


def _kind(session: Session) -> type[Recording] | None:
    """Returns how functions are recorded, the same at all parties; None if they are not.

    On CPUs that takes all parties: one that cannot record, as its shares are on a GPU of its own,
    would not take part in what the others agree on. So they ask each other, once.
    """
    mesh = session.mesh
    if session.operations is None or not session.operations.is_recordable:
        return None
    if mesh.barrier is not None:
        return GraphRecording
    if mesh.has_stored_peers or session.protocol.context.blind:
        return None
    obstacle = None if can_record(session) else "a party cannot record"
    return None if PlanRecording.first_of_all(session, obstacle) else PlanRecording


def can_record(session: Session) -> bool:
    """Returns whether this party can record a plan: it computes on a CPU, with compiled kernels."""
    on_cpu = session.device.type == "cpu" and session.protocol.context.products.offload is None
    return on_cpu and load_native() is not None


class Specialization:
    """The calls with arguments of one form: warm-up, observation, recording, then replays."""

    def __init__(
        self,
        session: Session,
        kind: type[Recording],
        function: Callable[..., Any],
        signature: CallSignature,
    ) -> None:
        self.signature = signature
        self.obstacle: str | None = None
        self._session, self._kind, self._function = session, kind, function
        self._is_warm = False  # the first call has run: kernels are compiled
        self._seen: tuple[Trace, Environment] | None = None  # from the call that was observed
        self._limits: list[tuple[Cell, int | None]] = []  # of the tensors written in that call
        self._recording: Recording | None = None
        self._num_unused = 0  # recordings in a row that were not replayed

    @property
    def recording(self) -> Recording | None:
        """What is replayed now, if anything is."""
        return self._recording

    def call(self, given: SecretTree, args: Any, kwargs: Any) -> Any:
        """Returns what the function returns, by running, observing, recording or replaying it."""
        if not self._is_warm:
            result = self._function(*args, **kwargs)
            self._is_warm = True
            return result
        if self._seen is None or not self._can_go_on(given):
            self._recording = None
            return self._observe(given, args, kwargs)
        if self._recording is not None and self._recording.advance():
            self._num_unused = 0
            return self._recording.replay(given)
        return self._record(given)

    def _can_go_on(self, given: SecretTree) -> bool:
        """Whether the function would do now what was observed or recorded."""
        fits = self._kind.decided(self._session, self._fits(given))
        return fits and self._accepts_state()

    def _record(self, given: SecretTree) -> Any:
        """Records the function, and returns what it returns."""
        assert self._seen is not None
        trace, environment = self._seen
        recording = self._kind(
            self._session,
            self._function,
            given,
            trace,
            environment.parameters(),
            self.signature.private or frozenset(),
        )
        result = recording.first_results(given)
        obstacle = recording.obstacle
        if not environment.is_unchanged():
            obstacle = "it changes a variable, a module or an optimizer's settings"
        obstacle = self._kind.first_of_all(self._session, obstacle)
        self._num_unused += 1
        if self._num_unused > MOST_UNUSED:
            self.obstacle = obstacle or "its public numbers are others in every call"
        elif obstacle is not None and self._recording is not None:  # it does something else now
            self._seen = self._recording = None
        else:
            self.obstacle, self._recording = obstacle, recording
        return result

    def _fits(self, given: SecretTree) -> bool:
        """Whether the observed or recorded call is what the function would do now."""
        assert self._seen is not None
        _, environment = self._seen
        if not environment.is_unchanged():
            return False
        return self._recording is None or self._recording.fits(given)

    def _accepts_state(self) -> bool:
        """Whether the tensors that the function writes still have their recorded forms."""
        if self._recording is not None:
            return self._recording.accept_state()
        return all(canonical_limit(cell.value) == limit for cell, limit in self._limits)

    def _observe(self, given: SecretTree, args: Any, kwargs: Any) -> Any:
        """Runs the function and finds what it uses, and whether it can be recorded."""
        session, trace = self._session, self._kind.observer()
        trace.note_arguments(given.others)
        environment, revealed = Environment(self._function), len(session.reveals)
        with environment.observed(trace), trace.on(session.numbers):
            result = self._function(*args, **kwargs)
            made = SecretTree.of(result)
            compute(made.values)
        obstacle = _obstacle(trace, given, made)
        if len(session.reveals) > revealed and not self._kind.can_reveal(session):
            obstacle = "it reveals"
        if environment.counts_steps:
            obstacle = "the optimizer counts its steps"
        private, used = self._agreed(trace.shared_arguments, trace.used_arguments)
        if private & used:
            obstacle = obstacle or "it shares an argument, and computes with its plain numbers, too"
        self.obstacle = self._kind.first_of_all(session, obstacle)
        self.signature = CallSignature(given, private)
        trace.forget(given.secrets)
        self._seen = trace, environment
        self._limits = [(cell, canonical_limit(cell.value)) for cell in trace.written()]
        return result

    def _agreed(self, *places: Set[int]) -> list[frozenset[int]]:
        """Returns for each set of places all that are in it at some party."""
        own = ";".join(" ".join(map(str, sorted(one))) for one in places)
        told = [one.split(";") for one in self._kind.gathered(self._session, own)]
        return [
            frozenset(int(i) for one in each for i in one.split())
            for each in zip(*told, strict=True)
        ]


def _obstacle(trace: Trace, given: SecretTree, made: SecretTree) -> str | None:
    """Returns why an observed function cannot be recorded, or None."""
    written = {id(cell): cell for cell in trace.written()}
    if any(id(x._cell) in written for x in given.secrets):
        return "it writes to an argument"
    if any(x.requires_grad for x in given.secrets):
        return "an argument requires a gradient"
    if any(x.requires_grad for x in made.secrets):
        return "a result requires a gradient (detach it)"
    if not all(trace.is_new_secret(x) for x in made.secrets):
        return "a result is an alias of a tensor from before (clone it)"
    if any(
        canonical_limit(trace.values[i]) != canonical_limit(cell.value)
        for i, cell in written.items()
    ):
        return "what is promised of integers that it writes grows"
    return trace.obstacle
