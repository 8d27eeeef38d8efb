"""Rounds that are begun before others are finished: messages come in order, and nobody is stuck."""

from __future__ import annotations

import pytest
import torch
from tests.transport.parties import KINDS, run
from torch import Tensor

from tacit.errors import PublicMismatch
from tacit.transport import Limits, Mesh, Spec, memory_meshes
from tacit.transport.open_round import OpenRound
from tacit.transport.public_record import DIGEST_BYTES

EACH = pytest.mark.parametrize("kind", KINDS)
SMALL = Spec((3,), torch.int64)


def begin(mesh: Mesh, number: int, spec: Spec = SMALL) -> OpenRound:
    """Begins a round in which both parties send each other a tensor that tells the round."""
    sent = torch.full(spec.shape, 10 * number + mesh.rank, dtype=spec.dtype)
    return mesh.begin({1 - mesh.rank: [sent]}, {1 - mesh.rank: [spec]})


def told(mesh: Mesh, opened: OpenRound) -> int:
    """The round that the message of a round tells; its sender is the other party."""
    [tensor] = mesh.finish(opened)[1 - mesh.rank]
    values = set((tensor - (1 - mesh.rank)).flatten().tolist())
    return values.pop() // 10 if len(values) == 1 else -1


@EACH
def test_rounds_are_finished_in_any_order(kind):
    def program(mesh: Mesh) -> list[int]:
        opened = [begin(mesh, number) for number in range(4)]
        assert mesh.finish(mesh.begin({}, {})) == {}
        found = [told(mesh, opened[i]) for i in (2, 0, 1)]
        between = mesh.exchange({1 - mesh.rank: [torch.tensor([99])]}, {1 - mesh.rank: [ONE]})
        return [*found, told(mesh, opened[3]), int(between[1 - mesh.rank][0])]

    assert run(kind, program).values() == [[2, 0, 1, 3, 99]] * 2


ONE = Spec((1,), torch.int64)


@EACH
def test_costs_are_counted_where_a_round_is_finished(kind):
    def program(mesh: Mesh) -> list[tuple[int, int]]:
        opened = [begin(mesh, number) for number in range(3)]
        counted = []
        for one in reversed(opened):
            with mesh.stats.scope("one") as cost:
                mesh.finish(one)
            counted.append((cost.bytes_received, cost.rounds))
        return counted

    assert run(kind, program).values() == [[(24, 1)] * 3] * 2


@EACH
def test_parties_that_fill_each_others_queues_go_on(kind):
    """Each message is larger than what may wait to be sent, and nobody waits for one before."""
    large = Spec((1 << 19,), torch.int64)
    limits = Limits(deadline=20.0, max_queued_bytes=1 << 16)

    def program(mesh: Mesh) -> list[int]:
        opened = [begin(mesh, number, large) for number in range(5)]
        return [told(mesh, one) for one in opened]

    assert run(kind, program, limits=limits).values() == [[0, 1, 2, 3, 4]] * 2


@EACH
def test_a_mesh_closes_with_open_rounds(kind):
    """A message that is larger than the buffers of sockets is taken before the end."""
    large = Spec((1 << 21,), torch.int64)

    def program(mesh: Mesh) -> bool:
        begin(mesh, 0, large)
        return not begin(mesh, 1, large).is_complete

    assert run(kind, program).values() == [True, True]


@EACH
def test_the_public_record_counts_that_was_when_a_round_began(kind):
    def program(mesh: Mesh) -> list[int]:
        opened = []
        for number in range(3):
            mesh.record.digest = bytes([number]) * DIGEST_BYTES
            opened.append(begin(mesh, number))
        mesh.record.digest = bytes(DIGEST_BYTES)
        return [told(mesh, one) for one in opened]

    assert run(kind, program).values() == [[0, 1, 2]] * 2


@EACH
def test_a_record_that_differs_in_an_open_round_is_noticed(kind):
    def program(mesh: Mesh) -> list[Tensor]:
        opened = []
        for number in range(3):
            mesh.record.digest = bytes([number + (number == 1) * mesh.rank]) * DIGEST_BYTES
            opened.append(begin(mesh, number))
        return [mesh.finish(one)[1 - mesh.rank][0] for one in opened]

    assert all(isinstance(error, PublicMismatch) for error in run(kind, program))


def test_scopes_of_one_thread_do_not_count_what_another_spends():
    def program(mesh: Mesh) -> list[int]:
        stats = mesh.stats
        with stats.scope("outer") as outer:
            told(mesh, begin(mesh, 0))
            paused = stats.pause()
            with stats.scope("other") as other:
                told(mesh, begin(mesh, 1))
            stats.resume(paused)
            with stats.scope("inner") as inner:
                told(mesh, begin(mesh, 2))
        assert {*stats.scopes} == {"other", "outer", "outer/inner"}
        return [outer.rounds, other.rounds, inner.rounds]

    assert run("memory", program).values() == [[2, 1, 1]] * 2


def test_a_peer_that_has_ended_is_not_stuck_before_its_last_message_is_taken():
    """A worker that was idle for longer than the deadline gets the message that it may end."""
    one, other = memory_meshes(2)
    one.exchange_bytes({1: b"the end"}, [])
    one.close()
    assert not other.channel(0).stuck
    assert other.exchange_bytes({}, [0]) == {0: b"the end"}
    assert other.channel(0).stuck
