"""How each party ended, and which of several failures came first."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ...errors import (
    ALL_LINES,
    CheckpointRejected,
    ConnectError,
    DataRejected,
    Error,
    Party,
    PartyFailed,
    PeerClosed,
    PreprocessingRejected,
    RangeError,
    RevealForbidden,
    from_users_code,
    keeps_all_lines,
    shortened,
)

# Another party may be the cause of these.
ECHOES = (PeerClosed, ConnectError, RevealForbidden, RangeError)

# Every party raises these about the file of one, which alone tells its path and the place in it.
REJECTIONS = (DataRejected, CheckpointRejected, PreprocessingRejected)


@dataclass(frozen=True)
class Success:
    """A party is ready, or its program returned `value`."""

    party: int
    value: Any


@dataclass(frozen=True)
class Failure:
    """A party failed.

    blames: the party whose end made it fail, if the failure is an echo. raised: the party's own
    error object, if the party runs in the caller's process. is_silent: it says less than those who
    blame it.
    """

    error: PartyFailed
    time: float
    blames: int | None = None
    raised: BaseException | None = None
    is_silent: bool = False

    @property
    def party(self) -> int:
        """The rank of the party that failed."""
        assert self.error.party is not None
        return self.error.party


Outcome = Success | Failure


def attempt(party: int, action: Callable[[], Any]) -> Outcome:
    """Runs an action of one party and returns its outcome. Raises nothing."""
    try:
        return Success(party, action())
    except BaseException as error:
        error.__traceback__ = from_users_code(error.__traceback__)
        blames = _blamed(error, party)
        return Failure(PartyFailed.of(error, party), monotonic(), blames, raised=error)


def _blamed(error: BaseException, party: int) -> int | None:
    if isinstance(error, REJECTIONS):
        return error.party if error.party != party else None
    return error.party if isinstance(error, ECHOES) else None


def collect(
    receive: Callable[[float | None], Outcome | None],
    parties: int,
    *,
    patience: float,
    names: Sequence[str],
    deadline: float | None = None,
) -> list[Any]:
    """Returns every party's value by rank. Raises PartyFailed with the first failure.

    `receive(timeout)` gives the next outcome, or None if there is none in time. All together have
    `deadline` seconds; after a failure the others have `patience` seconds to end by themselves.
    """
    values: dict[int, Any] = {}
    failures: list[Failure] = []
    until = None if deadline is None else monotonic() + deadline
    while len(values) + len(failures) < parties:
        outcome = receive(None if until is None else max(0.0, until - monotonic()))
        if outcome is None:
            break
        if isinstance(outcome, Success):
            values[outcome.party] = outcome.value
        else:
            until = monotonic() + patience if not failures else until
            failures.append(outcome)
    failures += _silent(parties, values.keys() | {failure.party for failure in failures})
    if failures:
        raise party_failed(failures, names)
    return [values[party] for party in range(parties)]


def _silent(parties: int, heard: Set[int]) -> list[Failure]:
    reason = "no answer in time; it was still running"
    missing = [party for party in range(parties) if party not in heard]
    return [Failure(PartyFailed(reason, party=party), monotonic()) for party in missing]


def root_cause(failures: Sequence[Failure]) -> Failure:
    """Returns the earliest failure that is not an echo; among echoes, one that blames itself."""
    failed = {failure.party for failure in failures if not failure.is_silent}
    return min(
        failures, key=lambda f: (f.is_silent, f.blames in failed, f.blames != f.party, f.time)
    )


def party_failed(failures: Sequence[Failure], names: Sequence[str]) -> PartyFailed:
    """Returns the error of the party that failed first; the other failures become notes."""
    root = root_cause(failures)
    for failure in failures:
        failure.error.names = names
    for failure in failures:
        if failure is not root:
            root.error.add_note(_note(failure.error, root.error))
    if root.raised is not None:
        trace = from_users_code(root.raised.__traceback__)
        if isinstance(root.raised, Error) and not keeps_all_lines():
            trace = shortened(trace)
            root.raised.add_note(ALL_LINES.strip())
        root.error.__cause__ = root.raised.with_traceback(trace)
    return root.error


def _note(error: PartyFailed, root: PartyFailed) -> str:
    """Returns the note about a party that failed after the first."""
    if (error.kind, str(error.reason)) == (root.kind, str(root.reason)):
        return f"then {Party(error.party or 0).render(error.names)} failed in the same way"
    return f"then {error.headline}"
