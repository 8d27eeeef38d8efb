"""A session that measures what its party does, for a report."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from ..placed_session import PlacedSession
from ..replay.repeated import Repeated
from ..session import Session
from .party_report import PartyReport, party_report
from .profiler import Profiler
from .replays import Kind, Replays


@dataclass(frozen=True, kw_only=True)
class MeasuredSession(PlacedSession):
    """A session with its profiler. tell: is given the party's report when the session ends.

    replays: those of each repeated function.
    """

    profiler: Profiler = field(repr=False)
    tell: Callable[[PartyReport], None] = field(repr=False)
    replays: list[Replays] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, session: Session, tell: Callable[[PartyReport], None]) -> MeasuredSession:
        """Returns a session over the channels of another, which is measured from now on."""
        given = {one.name: getattr(session, one.name) for one in fields(Session)}
        profiler = Profiler(session.mesh)
        session.mesh.watcher = profiler
        if session.operations is not None:
            session.operations.context.watcher = profiler
        return cls(**given, profiler=profiler, tell=tell)

    def within(self, call: str) -> AbstractContextManager[None]:
        return self.profiler.at(call)

    def repeated(self, function: Callable[..., Any]) -> Repeated:
        made = MeasuredFunction(self, function)
        if self.repeated_functions is not None:
            self.repeated_functions.append(made)
        return made

    @contextmanager
    def measured(self, error: BaseException | None = None) -> Iterator[None]:
        """Within, the run comes to its end; then `tell` is given the report.

        error: what the program raised before, if anything.
        """
        try:
            yield
        except BaseException as found:
            error = error or found
            raise
        finally:
            self.mesh.watcher = None
            if self.operations is not None:
                self.operations.context.watcher = None
            self.profiler.end(error)
            divided = [one for replays in self.replays for one in replays.divide()]
            self.tell(party_report(self, self.profiler, divided, error))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self.measured(error):
            super().__exit__(kind, error, traceback)


class MeasuredFunction(Repeated):
    """A repeated function, with a place of its own, and what of it is replayed."""

    def __init__(self, session: MeasuredSession, function: Callable[..., Any]) -> None:
        super().__init__(session, function)
        self._measured = session
        name: str = getattr(function, "__qualname__", type(function).__name__)
        self._part = f"repeated {name.replace('.<locals>', '')}"
        self._replays = Replays(session.profiler)
        session.replays.append(self._replays)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        number = self._measured.profiler.here(self._part)
        kind = Kind(number, _form((args, kwargs)))
        with self._replays.call(kind), self._measured.within(self._part):
            return super().__call__(*args, **kwargs)


def _form(arguments: Any) -> tuple[Hashable, ...]:
    """The shapes of all tensors: calls with others may spend their time elsewhere."""
    return tuple(x.shape for x in tree_leaves(arguments) if isinstance(x, Tensor))
