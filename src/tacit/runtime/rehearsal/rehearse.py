"""`tacit.check`: a job rehearsed on this machine, before parties meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from ...errors import (
    ConfigError,
    PartyFailed,
    PublicMismatch,
    described,
    lines_of,
    lines_text,
    rendered,
    statement,
)
from ...nn.validate import Problem
from ...transport.shaping import PROFILES
from ..launch.local_run import run
from ..progress import RunningLoops
from ..session import Session
from .forecast import forecast
from .meter import Meter, Spent
from .rehearsed_session import RehearsedSession
from .stand_ins import StandIns
from .twin_comparison import Comparison

ENDED = "the job ended here: what follows was not checked"


@dataclass(frozen=True)
class PlaceCost:
    """What a module, or a line outside of modules, costs. bytes_sent: by each member."""

    where: str
    rounds: int
    seconds: float
    bytes_sent: tuple[int, ...]


@dataclass(frozen=True)
class Rehearsal:
    """What a rehearsal found.

    problems: in the order of the program. places: the cost by module or line, in that order.
    rounds: of the member that has most. bytes_sent: by each member. seconds: on each network.
    stand_ins: the files that were made up, with their sizes. results: of `main` at each party;
    None if the job ended early.
    """

    problems: list[Problem]
    places: list[PlaceCost]
    names: tuple[str, ...]
    rounds: int
    bytes_sent: tuple[int, ...]
    seconds: dict[str, float]
    stand_ins: dict[str, str]
    results: list[Any] | None = field(repr=False)


def check(
    main: Callable[..., Any],
    *args: Any,
    stand_ins: Mapping[str, str] | None = None,
    progress: Rehearsing | None = None,
    **settings: Any,
) -> Rehearsal:
    """Runs `main` once, with all parties as threads, and returns what would go wrong, and its cost.

    Takes the arguments and settings of `tacit.run`. Every operation on secrets is compared with
    float64: values beyond their range, functions outside of their domain, precision that is lost,
    operators without a rule, questions about values, public values that differ. The rounds and
    bytes are those of a real run. stand_ins: sizes of files that are not here, see `StandIns`.
    progress: an object whose `text` says how far it is.
    """
    if settings.get("transport", "threads") != "threads":
        raise ConfigError(
            f"transport={settings['transport']!r}", limit="a rehearsal runs all parties as threads"
        )
    if settings.get("protocol") == "enclave":
        raise ConfigError(
            "protocol='enclave'",
            limit="a rehearsal compares shares with float64, and an enclave computes in floats",
            remedy="run it with tacit local",
        )
    rehearsing = progress or Rehearsing()
    with TemporaryDirectory(prefix="tacit-check-") as folder:
        rehearsing.start(main, StandIns(stand_ins or {}, Path(folder)))
        try:
            results: list[Any] | None = run(rehearsing, *args, **settings)
        except PartyFailed as error:
            results = None
            rehearsing.failure = error
        return rehearsing.report(results)


class Rehearsing:
    """The program that each party of a rehearsal runs: the job, watched.

    is_shown: whether a command line shows `text`; then the job's loops print nothing.
    """

    def __init__(self, *, is_shown: bool = False) -> None:
        self._lock, self._is_shown = Lock(), is_shown
        self._loops = RunningLoops()
        self._comparison: Comparison | None = None
        self._meters: dict[int, Meter] = {}
        self._names: tuple[str, ...] = ()
        self.failure: PartyFailed | None = None

    @property
    def text(self) -> str:
        """How far the loops of party 0 are, and how many operations were compared so far."""
        count = self._comparison.count if self._comparison is not None else 0
        return "; ".join(filter(None, (self._loops.text, f"{count} operations")))

    def start(self, main: Callable[..., Any], stand_ins: StandIns) -> None:
        """Sets the program."""
        self._main, self._stand_ins = main, stand_ins

    def __call__(self, session: Session, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            if self._comparison is None:
                self._comparison = Comparison(session.mesh.parties)
                self._names = session.names
        rehearsed = RehearsedSession.of(session, self._comparison, self._stand_ins)
        self._meters[session.rank] = rehearsed.meter
        if session.rank == 0:
            self._loops = session.loops
            self._loops.is_shown = self._loops.is_shown or self._is_shown
        rehearsed.meter.read()
        rehearsed.meter.outside = "the job outside of operations"
        try:
            return self._main(rehearsed, *args, **kwargs)
        finally:
            rehearsed.meter.read()

    def report(self, results: list[Any] | None) -> Rehearsal:
        """Returns what was found."""
        ranks = range(len(self._names))
        records = [self._meters[rank].records if rank in self._meters else [] for rank in ranks]
        return Rehearsal(
            problems=self._problems(),
            places=_places(records),
            names=self._names,
            rounds=max((sum(one.rounds for one in each) for each in records), default=0),
            bytes_sent=tuple(sum(one.bytes_sent for one in each) for each in records),
            seconds={name: forecast(records, link) for name, link in PROFILES.items()},
            stand_ins=self._stand_ins.made,
            results=results,
        )

    def _problems(self) -> list[Problem]:
        found = [] if self._comparison is None else self._comparison.problems
        if self.failure is not None:
            last = _ended(self.failure)
            if self.failure.kind == PublicMismatch.__name__ and self._comparison is not None:
                path, line = self._comparison.public_calls.place or (last.path, last.line)
                last = replace(last, path=path, line=line)
            return [*(one for one in found if _place(one) != _place(last)), last]
        if self._comparison is not None and self._comparison.broken is not None:
            reason = f"comparing ended early: {described(self._comparison.broken)}"
            return [*found, Problem("", "check", reason, "report it: this is a fault of tacit")]
        return found


def _place(problem: Problem) -> tuple[str, str, str]:
    return problem.path, problem.op, problem.line


def _ended(error: PartyFailed) -> Problem:
    """The error that ended the job, as a problem."""
    path = error.path or ""
    where = f"{error.model}.{path}" if error.model and path else error.model or path
    reason = f"{error.kind}: {statement(error)}"
    remedy = "; ".join(filter(None, (rendered(error.remedy or "", error.names), ENDED)))
    line = "".join(lines_text(*lines_of(error)))
    return Problem(where, error.op or "the job", reason, remedy, line)


def _places(records: Sequence[Sequence[Spent]]) -> list[PlaceCost]:
    """Adds up by place, in the order in which the program came to them."""
    spent: dict[str, list[list[Spent]]] = {}
    for rank, each in enumerate(records):
        for one in each:
            spent.setdefault(one.where, [[] for _ in records])[rank].append(one)
    return [
        PlaceCost(
            where,
            max(sum(one.rounds for one in own) for own in by_rank),
            max(sum(one.seconds for one in own) for own in by_rank),
            tuple(sum(one.bytes_sent for one in own) for own in by_rank),
        )
        for where, by_rank in spent.items()
    ]
