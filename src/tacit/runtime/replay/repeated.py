"""Functions that are called many times with arguments of the same form.

Between two kernels, Python's work takes longer than a small kernel does. The first two calls of a
repeated function run normally. If they show that it depends on secrets only, the third call is
recorded, and later calls replay it without the function's code: parties that share a GPU as one
graph (`graph.py`), a party on CPUs as a plan (`plan.py`), and a party with a GPU of its own as
graphs between rounds (`segments.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ...kernels.backend import load_native
from .buffers import CallSignature, SecretTree
from .graph import GraphRecording
from .object_kinds import note_package
from .own_recording import OwnRecording
from .plan_recording import PlanRecording
from .recording import Recording
from .segment_recording import SegmentRecording
from .specialization import Specialization
from .step_times import StepTimes, wait_for_gpu
from .summary import RecordingSummary, described

if TYPE_CHECKING:
    from ..session import Session

log = logging.getLogger("tacit")

MOST_RECORDINGS = 8


class Repeated:
    """A callable like the function, which records and replays its work where possible."""

    def __init__(self, session: Session, function: Callable[..., Any]) -> None:
        self._session, self._function = session, function
        self.__wrapped__ = function
        note_package(function)
        self._specializations: list[Specialization] = []
        self._obstacle: str | None = None
        self._kind: type[Recording] | None = None
        self._is_decided = self._has_dropped = False
        self._fixes_arguments = False  # each recording is for public arguments of one content

    @property
    def recordings(self) -> list[RecordingSummary]:
        """What each recording does in a replay, the newest first."""
        return [made.summary() for one in self._specializations for made in one.recordings]

    def summary(self) -> str:
        """Returns what is recorded, as text: calls, rounds, bytes, memory; or why nothing is."""
        return described(self._name, self.recordings, self._obstacle)

    @property
    def _name(self) -> str:
        return getattr(self._function, "__qualname__", type(self._function).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = self._session
        session.protocol.context.mesh.require_own_thread()
        if self._obstacle is not None or self._is_within_another():
            return self._function(*args, **kwargs)
        if not self._is_decided:
            self._kind, self._is_decided = _kind(session), True
            if self._kind is None:
                self._obstacle = "a party, the protocol or a stored run does not allow it"
        if self._kind is None:
            return self._function(*args, **kwargs)
        given = SecretTree.of_call(args, kwargs)
        found = next((one for one in self._specializations if one.signature.fits(given)), None)
        if found is None:
            found = self._specialized(self._kind, given)
            self._keep(found)
        result = found.call(given, args, kwargs)
        if found.obstacle is not None and found.is_for_any_contents:
            # It decides by public arguments: one recording for each of their contents.
            self._fixes_arguments = True
            self._specializations.remove(found)
        elif found.obstacle is not None:
            self._obstacle, self._specializations = found.obstacle, []
            if session.rank == 0:
                log.warning("repeated: %s: it runs as it is", self._obstacle)
        return result

    def profile(self, *args: Any, **kwargs: Any) -> str:
        """Calls the function, and returns where this party's time went, as text.

        All parties call it together, as they call the function. For a call that is replayed, its
        steps are timed one by one: what it computes, and what it waits for.
        """
        times, device = StepTimes(), self._session.device
        plans = [one.plan for found in self._specializations for one in found.recordings]
        wait_for_gpu(device)
        begin = perf_counter()
        for plan in plans:
            plan.run_steps = times.run
        try:
            self(*args, **kwargs)
        finally:
            for plan in plans:
                plan.run_steps = None
        wait_for_gpu(device)
        seconds = perf_counter() - begin
        return times.described(self._name, seconds)

    def _specialized(self, kind: type[Recording], given: SecretTree) -> Specialization:
        """Returns a specialization for a call that fits none of those that there are."""
        alike = next((x for x in self._specializations if x.signature.has_form(given)), None)
        if alike is None:
            signature = CallSignature(given, None if kind.takes_plain else frozenset())
            return Specialization(self._session, kind, self._function, signature)
        known, varying = alike.signature, frozenset[int]()
        if kind.takes_plain and not self._fixes_arguments:
            varying = frozenset(known.differing(given))
            self._specializations.remove(alike)
        signature = CallSignature(given, known.private, varying)
        return Specialization(self._session, kind, self._function, signature, alike.leaves)

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

    Parties that do not share a GPU must all record, and in the same way: one that does not would
    not take part in what the others agree on. So they ask each other, once.
    """
    mesh = session.mesh
    if session.operations is None or not session.operations.is_recordable:
        return None
    if mesh.barrier is not None:
        return GraphRecording
    if mesh.has_stored_peers or session.protocol.context.blind:
        return None
    own = own_kind(session)
    names = OwnRecording.gathered(session, own.__name__ if own else "")
    return own if len(set(names)) == 1 else None


def own_kind(session: Session) -> type[Recording] | None:
    """Returns how this party can record: on a CPU it needs the compiled kernels.

    On a GPU, parties that are threads hand each other memory that the next replay overwrites.
    """
    if session.protocol.context.products.offload is not None:
        return None
    if session.device.type == "cuda":
        return None if session.mesh.shares_memory else SegmentRecording
    return PlanRecording if load_native() is not None else None
