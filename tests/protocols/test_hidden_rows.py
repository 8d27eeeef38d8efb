"""Rows that one party takes: they are the table's, and the places that others see say nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import pytest
import torch
from tests.protocols.members import run_members
from tests.protocols.views import Recorder

import tacit
from tacit import Session
from tacit.errors import PartyFailed

HIDING = [("trio", 3), ("replicated", 3), ("additive", 2), ("additive", 4)]
EACH = pytest.mark.parametrize(("protocol", "parties"), HIDING)
TABLE = torch.arange(-20, 20).reshape(10, 4)


def taken(session: Session) -> list[torch.Tensor]:
    """Rows in two calls for each owner, of a table that is a sum of two parties' inputs."""
    p: Any = session.protocol
    found = []
    for owner in range(p.parties):
        table = p.add(p.share(TABLE + 1, 0), p.share(-torch.ones_like(TABLE), 1))
        hidden = p.hide_rows(table, owner)
        for rows in (torch.tensor([7, 0]), torch.tensor([9, 3, 1])):
            named = rows if p.rank == owner else None
            found.append(p.reveal(p.take_hidden(hidden, named, len(rows))))
    return found


@EACH
def test_the_owner_takes_the_rows_that_it_names(protocol, parties):
    by_party = run_members(taken, protocol=protocol, parties=parties)
    wanted = [TABLE[[7, 0]], TABLE[[9, 3, 1]]] * parties
    for found in by_party[:parties]:
        assert all(one.equal(want) for one, want in zip(found, wanted, strict=True))


CALLS = 200


def told(session: Session, rows: list[int]) -> list[tuple[int, ...]]:
    """The places that this party is told when party 1 takes rows of a table of three, often."""
    p: Any = session.protocol
    table, recorder, seen = p.share(torch.zeros(3, 1).long(), 0), Recorder(session), []
    named = torch.tensor(rows) if p.rank == 1 else None
    for _ in range(CALLS):
        hidden = p.hide_rows(table, 1)
        recorder.take()
        p.take_hidden(hidden, named, len(rows))
        places = [one for _, one in recorder.take() if one.shape == (len(rows),)]
        seen += [tuple(one.tolist()) for one in places]
    return seen


@EACH
def test_places_are_uniform_and_independent_whatever_rows_are_taken(protocol, parties):
    """Chi-square of the six orders of three rows: above 40 with p < 2e-7, for each party.

    Two parties that put their places together see equal ones in one call of six, by chance.
    """
    expected = CALLS / 6
    for rows in ([0, 1, 2], [2, 0, 1]):
        by_party = run_members(told, rows, protocol=protocol, parties=parties)
        seen = [one for one in by_party if one]  # the owner and the dealer are told nothing
        assert len(seen) == (parties - 1 if protocol == "additive" else 1)
        for one in seen:
            counts = [one.count(order) for order in permutations(range(3))]
            assert sum(counts) == CALLS
            assert sum((count - expected) ** 2 for count in counts) / expected < 40
        for one, other in pairwise(seen):
            same = sum(a == b for a, b in zip(one, other, strict=True))
            assert abs(same - expected) < 7 * (CALLS * 5 / 36) ** 0.5


def told_wrongly(session: Session, place: int) -> None:
    """Party 1 takes a row of a table that it thinks is larger."""
    p: Any = session.protocol
    hidden = p.hide_rows(p.share(TABLE, 0), 1)
    if p.rank == 1:
        hidden = replace(hidden, places={e: torch.full((10,), place) for e in hidden.places})
    p.take_hidden(hidden, torch.tensor([0]) if p.rank == 1 else None, 1)


@EACH
@pytest.mark.parametrize("place", [-1, 10, 2**62])
def test_a_place_that_is_none_is_refused(protocol, parties, place):
    with pytest.raises(PartyFailed, match="party 1 takes a row at a place that is none"):
        tacit.run(told_wrongly, place, protocol=protocol, parties=parties)
