"""Messages that are sent ahead are taken as they come, while a party talks to others."""

from __future__ import annotations

import time

import pytest
import torch
from tests.transport.parties import KINDS, run

from tacit.errors import PeerClosed, PeerTimeout, ProtocolDesync
from tacit.transport import Limits, Mesh, Spec

EACH = pytest.mark.parametrize("kind", KINDS)
DEALER, EVALUATORS = 0, (1, 2)
SIZES = [3, 20_000, 600_000, 5, 300_000, 1, 70_000]  # of messages, in words
SHORT = Spec((4,), torch.int64)


def words(place: int) -> torch.Tensor:
    return torch.arange(SIZES[place]) * 7 + place


def deal(mesh: Mesh) -> None:
    for place in range(len(SIZES)):
        mesh.exchange({2: [words(place)]}, {}, operation=10 * place, ahead=True)


def talk(mesh: Mesh, operation: int) -> None:
    """A round of the evaluators."""
    peer = 3 - mesh.rank
    [got] = mesh.exchange(
        {peer: [torch.full((4,), operation)]}, {peer: [SHORT]}, operation=operation
    )[peer]
    assert got.eq(operation).all()


@EACH
@pytest.mark.parametrize("window", [1, 2, len(SIZES)])
@pytest.mark.parametrize("stripes", [1, 3])
def test_messages_come_while_others_are_waited_for(kind: str, window: int, stripes: int) -> None:
    """Each is that of its round, in its memory if one is given, and counted where it is used."""

    def program(mesh: Mesh) -> list[tuple[int, int]]:
        if mesh.rank == DEALER:
            deal(mesh)
            return []
        posted, counted = [], []
        places = [torch.empty(size, dtype=torch.int64) for size in SIZES]
        for place in range(len(SIZES)):
            while mesh.rank == 2 and len(posted) < min(place + window, len(SIZES)):
                at = len(posted)
                spec, into = Spec((SIZES[at],), torch.int64), {DEALER: [places[at]]}
                given = into if at % 2 and kind != "memory" else {}
                posted.append(mesh.post({DEALER: [spec]}, operation=10 * at, into=given))
            talk(mesh, 10 * place + 1)
            talk(mesh, 10 * place + 2)
            if mesh.rank == 2:
                with mesh.stats.scope("one") as cost:
                    [got] = mesh.finish_posted(posted[place])[DEALER]
                assert got.equal(words(place))
                assert (place % 2 and kind != "memory") == (
                    got.data_ptr() == places[place].data_ptr()
                )
                counted.append((cost.bytes_received_ahead, cost.rounds))
            talk(mesh, 10 * place + 3)
        mesh.exchange(
            {3 - mesh.rank: [torch.ones(1)]}, {3 - mesh.rank: [Spec((1,), torch.float32)]}
        )
        return counted

    found = run(kind, program, parties=3, stripes=(stripes,) * 3).values()
    assert found[2] == [(8 * size, 0) for size in SIZES]


@EACH
def test_a_posted_message_is_here_before_it_is_used(kind: str) -> None:
    """Rounds with another party take it: nobody has waited for it when it is finished."""

    def program(mesh: Mesh) -> bool:
        if mesh.rank == DEALER:
            deal(mesh)
            return True
        if mesh.rank == 1:
            for number in range(400):
                talk(mesh, 1000 + number)
            return True
        posted = [
            mesh.post({DEALER: [Spec((size,), torch.int64)]}, operation=10 * place)
            for place, size in enumerate(SIZES)
        ]
        for number in range(400):
            talk(mesh, 1000 + number)
            time.sleep(1e-3)
        were_here = [len(one.early) == 1 for one in posted]
        for place, one in enumerate(posted):
            [got] = mesh.finish_posted(one)[DEALER]
            assert got.equal(words(place))
        return all(were_here)

    assert run(kind, program, parties=3).values() == [True] * 3


@EACH
def test_another_message_than_was_posted_is_refused(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == DEALER:
            deal(mesh)
            mesh.exchange({}, {2: [SHORT]})
        if mesh.rank == 2:
            mesh.finish_posted(mesh.post({DEALER: [SHORT]}, operation=0))

    outcome = run(kind, program, parties=3)
    assert isinstance(outcome[2], ProtocolDesync)
    assert outcome[2].party == DEALER


@EACH
def test_a_dealer_that_dies_is_noticed_in_a_round_with_another(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == DEALER:
            mesh.exchange({2: [words(0)]}, {}, operation=0, ahead=True)
            raise ZeroDivisionError
        if mesh.rank == 2:
            spec = Spec((SIZES[0],), torch.int64)
            for operation in (0, 10):
                mesh.post({DEALER: [spec]}, operation=operation)
        for number in range(10_000):
            talk(mesh, 1000 + number)
            time.sleep(1e-3)

    outcome = run(kind, program, parties=3, limits=Limits(deadline=20.0))
    for rank in EVALUATORS:
        assert isinstance(outcome[rank], PeerClosed | PeerTimeout)
        assert outcome[rank].party == DEALER
