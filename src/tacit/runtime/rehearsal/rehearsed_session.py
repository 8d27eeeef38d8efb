"""A session that says where the program shares, loads and reveals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any

from ..placed_session import PlacedSession
from ..places import line_label
from ..replay.repeated import Repeated
from ..session import Session
from .meter import Meter
from .observer import Observer
from .stand_ins import StandIns
from .twin_comparison import Comparison

COMPARED_CALLS = 2  # of a repeated function: later ones are recorded and replayed


@dataclass(frozen=True, kw_only=True)
class RehearsedSession(PlacedSession):
    """A session of a rehearsal, with what watches it. stand_ins: of files that are not here."""

    meter: Meter
    observer: Observer
    stand_ins: StandIns

    @classmethod
    def of(cls, session: Session, comparison: Comparison, stand_ins: StandIns) -> RehearsedSession:
        """Returns the session of a rehearsal over the channels of another."""
        given = {field.name: getattr(session, field.name) for field in fields(Session)}
        meter = Meter(session.stats, "keys, before the job begins")
        observer = Observer(session.numbers, comparison, meter)
        made = cls(**given, meter=meter, observer=observer, stand_ins=stand_ins)
        made.__dict__["numbers"] = session.numbers  # those that are observed
        return made

    def within(self, call: str) -> AbstractContextManager[None]:
        return self.meter.at(f"{call} at {line_label()}")

    def load(self, source: Any, owner: int | str, **options: Any) -> Any:
        with self.within("load"):
            if self.rank == self.rank_of(owner, "owner"):
                source = self.stand_ins.source_for(source, options)
            return super().load(source, owner, **options)

    def join(self, left: Any, right: Any, on: Any, **options: Any) -> Any:
        tables = self._tables(left, right, on, options)
        return super().join(*tables, on, **options)

    def intersect(self, left: Any, right: Any, on: Any, **options: Any) -> Any:
        tables = self._tables(left, right, on, options)
        return super().intersect(*tables, on, **options)

    def _tables(self, left: Any, right: Any, on: Any, options: dict[str, Any]) -> list[Any]:
        """The two tables of a join, with a stand-in for that of this party if it is not here."""
        owners = [self.rank_of(owner, "owners") for owner in options.get("owners", (0, 1))]
        ids = [on] if isinstance(on, str) else on
        return [
            self.stand_ins.source_for(table, options, ids) if owner == self.rank else table
            for owner, table in zip(owners, (left, right), strict=True)
        ]

    def map(
        self, function: Callable[..., Any], *batches: Iterable[Any], **options: Any
    ) -> Iterator[Any]:
        counted = self.meter.counted(function) if callable(function) else function
        return super().map(counted, *batches, **options)

    def repeated(self, function: Callable[..., Any]) -> Repeated:
        self.observer.copies = True  # a replay writes to memory that a slower party still reads
        made = RehearsedFunction(self, function)
        if self.repeated_functions is not None:
            self.repeated_functions.append(made)
        return made


class RehearsedFunction(Repeated):
    """A repeated function whose first calls are compared, and whose replays are counted."""

    def __init__(self, session: RehearsedSession, function: Callable[..., Any]) -> None:
        super().__init__(session, function)
        self._rehearsed, self._calls = session, 0
        self._where = getattr(function, "__qualname__", type(function).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._calls += 1
        if self._calls <= COMPARED_CALLS:
            return super().__call__(*args, **kwargs)
        session = self._rehearsed
        with session.observer.paused(), session.meter.at(f"replays of {self._where}"):
            return super().__call__(*args, **kwargs)
