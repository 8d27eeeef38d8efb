"""Runs of a program in which one party is corrupted, for protocols that detect it.

    from tacit.testing import Corruption, manipulations_of, messages_of, run_corrupted

    def program(session):
        x = session.share(torch.arange(3.0), owner=0)
        yield session.reveal(x * x)

    for sent in messages_of(program, protocol="quad"):
        for one in manipulations_of(sent):
            endings = run_corrupted(program, Corruption(sent.party, (one,)), protocol="quad")

A program is a function of a session that yields everything it opens. `messages_of` lists the
messages of an honest run; `run_corrupted` says how a run with a corrupted party ended at each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..registry import PROTOCOLS
from ..runtime import Session, run
from .manipulations import Manipulation, Sent, Tap

Program = Callable[[Session], Iterator[Any]]


@dataclass(frozen=True)
class Corruption:
    """What a corrupted party does.

    manipulations: of the messages that it sends. deviation: is called with its session before the
    program begins, and may replace anything there. program: what it runs instead of the program.
    """

    party: int
    manipulations: tuple[Manipulation, ...] = ()
    deviation: Callable[[Session], None] | None = None
    program: Program | None = None


@dataclass(frozen=True)
class Ending:
    """How a run ended at one party.

    opened: what it opened, in order. error: the class of what it raised, if anything. changed: it
    is the corrupted party, and sent something that an honest one would not have sent.
    """

    opened: tuple[Any, ...]
    error: type[Exception] | None = None
    changed: bool = False


def messages_of(program: Program, **settings: Any) -> list[Sent]:
    """Returns all messages of an honest run, by party. Settings are those of `tacit.run`."""
    by_party = run(partial(_listed, program), **_with_parties(settings))
    return [sent for messages in by_party for sent in messages]


def run_corrupted(program: Program, corruption: Corruption | None, **settings: Any) -> list[Ending]:
    """Returns how a run ended at each party, by rank; without a corruption all are honest.

    Settings are those of `tacit.run`. With `transport="processes"` all functions are importable.
    """
    endings: list[Ending] = run(partial(_ended, program, corruption), **_with_parties(settings))
    return endings


def _with_parties(settings: dict[str, Any]) -> dict[str, Any]:
    protocol = settings.get("protocol", "trio")
    return {"parties": PROTOCOLS[protocol].default_parties, **settings}


def _listed(program: Program, session: Session) -> list[Sent]:
    session.mesh.compare()
    tap = Tap(session.mesh, keeps=True)
    for _ in program(session):
        pass
    session.verify()
    return list(tap.sent)


def _ended(program: Program, corruption: Corruption | None, session: Session) -> Ending:
    """Runs the program here. The run ends for the others as if its error had left `main`."""
    opened: list[Any] = []
    tap: Tap | None = None
    error: Exception | None = None
    try:
        session.mesh.compare()  # so that no party is still about to begin when another has ended
        if corruption is not None and session.rank == corruption.party:
            program, tap = corruption.program or program, _corrupted(session, corruption)
        for value in program(session):
            opened.append(value)
        session.verify()
        session.mesh.close()
    except Exception as caught:
        error = caught
        session.mesh.abort(caught)
    changed = tap is not None and tap.changed
    return Ending(tuple(opened), type(error) if error else None, changed)


def _corrupted(session: Session, corruption: Corruption) -> Tap:
    tap = Tap(session.mesh)
    tap.ask(corruption.manipulations)
    if corruption.deviation is not None:
        corruption.deviation(session)
    return tap
