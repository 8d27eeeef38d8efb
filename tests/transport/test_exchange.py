"""What every kind of channel does when all goes well."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.transport.parties import KINDS, run

from tacit.errors import ConfigError
from tacit.transport import Limits, Mesh, Spec

pytestmark = pytest.mark.parametrize("kind", KINDS)

DTYPES = [torch.int32, torch.int64, torch.uint8, torch.bool, torch.float32, torch.bfloat16]
specs = st.builds(Spec, st.lists(st.integers(0, 5), max_size=4).map(tuple), st.sampled_from(DTYPES))


ONE = [Spec((1,), torch.float32)]


def fill(spec: Spec, seed: int) -> torch.Tensor:
    values = torch.arange(torch.Size(spec.shape).numel()) * 37 + seed
    return (values % 251).reshape(spec.shape).to(spec.dtype)


def peers(mesh: Mesh) -> list[int]:
    return [peer for peer in range(mesh.parties) if peer != mesh.rank]


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(wanted=st.lists(st.lists(specs, max_size=5), min_size=1, max_size=4))
def test_tensors_arrive_as_they_were_sent(kind: str, wanted: list[list[Spec]]) -> None:
    def program(mesh: Mesh) -> None:
        peer = 1 - mesh.rank
        for shapes in wanted:
            sent = [fill(spec, mesh.rank) for spec in shapes]
            got = mesh.exchange({peer: sent}, {peer: shapes})[peer]
            assert [t.dtype for t in got] == [spec.dtype for spec in shapes]
            assert [t.shape for t in got] == [spec.shape for spec in shapes]
            assert all(torch.equal(t, fill(s, peer)) for t, s in zip(got, shapes, strict=True))

    run(kind, program).values()


def test_a_tensor_that_is_not_contiguous_arrives_whole(kind: str) -> None:
    base = torch.arange(24).reshape(4, 6)
    views = [base.T, base[::2, 1::2], base[0, 0], torch.tensor(7).expand(3, 2)]

    def program(mesh: Mesh) -> bool:
        wanted = [Spec(tuple(view.shape), view.dtype) for view in views]
        if mesh.rank == 0:
            mesh.exchange({1: views}, {})
            return True
        return all(map(torch.equal, mesh.exchange({}, {0: wanted})[0], views))

    assert run(kind, program).values() == [True, True]


def test_messages_keep_their_order_whatever_their_size(kind: str) -> None:
    sizes = [1, 200_000, 3, 0, 50_000, 1, 300_000, 2]

    def program(mesh: Mesh) -> list[int]:
        if mesh.rank == 0:
            for index, size in enumerate(sizes):
                mesh.exchange({1: [torch.full((size + 1,), index)]}, {})
            return []
        wanted = [[Spec((size + 1,), torch.int64)] for size in sizes]
        return [int(mesh.exchange({}, {0: spec})[0][0][-1]) for spec in wanted]

    assert run(kind, program).values()[1] == list(range(len(sizes)))


def test_large_messages_cross_without_a_deadlock(kind: str) -> None:
    size = 1 << 21
    limits = Limits(deadline=20.0, max_queued_bytes=1 << 20)

    def program(mesh: Mesh) -> bool:
        mine = torch.full((size,), mesh.rank)
        got = mesh.exchange(
            {peer: [mine] for peer in peers(mesh)},
            {peer: [Spec((size,), torch.int64)] for peer in peers(mesh)},
        )
        return all(bool((got[peer][0] == peer).all()) for peer in peers(mesh))

    assert all(run(kind, program, 3, limits=limits).values())


def test_a_send_does_not_wait_for_the_receiver(kind: str) -> None:
    def program(mesh: Mesh) -> float:
        if mesh.rank == 1:
            time.sleep(0.4)
            mesh.exchange({}, {0: [Spec((1 << 21,), torch.int64)]})
            return 0.0
        started = time.monotonic()
        mesh.exchange({1: [torch.zeros(1 << 21, dtype=torch.int64)]}, {})
        return time.monotonic() - started

    assert run(kind, program).values()[0] < 0.35


def test_a_full_queue_holds_the_sender_back(kind: str) -> None:
    limits = Limits(deadline=5.0, max_queued_bytes=1 << 20)
    count = 8

    def program(mesh: Mesh) -> float:
        started = time.monotonic()
        for _ in range(count):
            if mesh.rank == 0:
                mesh.exchange({1: [torch.zeros(1 << 21, dtype=torch.int64)]}, {})
            else:
                time.sleep(0.05)
                mesh.exchange({}, {0: [Spec((1 << 21,), torch.int64)]})
        return time.monotonic() - started

    assert run(kind, program, limits=limits).values()[0] > 0.1


def test_bytes_of_any_length(kind: str) -> None:
    def program(mesh: Mesh) -> dict[int, bytes]:
        mine = bytes([mesh.rank]) * mesh.rank * 40_000
        return mesh.exchange_bytes(dict.fromkeys(peers(mesh), mine), peers(mesh))

    assert run(kind, program, 3).values()[0] == {1: b"\1" * 40_000, 2: b"\2" * 80_000}


def test_explicit_operations_leave_the_count_alone(kind: str) -> None:
    def program(mesh: Mesh) -> list[int]:
        peer, spec = 1 - mesh.rank, [Spec((), torch.int64)]
        numbers = [None, 1 << 63, None, 0]
        return [
            int(mesh.exchange({peer: [torch.tensor(n or 5)]}, {peer: spec}, operation=o)[peer][0])
            for n, o in enumerate(numbers)
        ]

    assert run(kind, program).values() == [[5, 1, 2, 3]] * 2


def test_stats_count_exactly(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        stats, spec = mesh.stats, Spec((10,), torch.int64)
        with stats.scope("all") as cost:
            with stats.scope("send") as sending:
                mesh.exchange({p: [torch.zeros(10).long()] * 2 for p in peers(mesh)}, {})
            with stats.scope("receive") as receiving:
                mesh.exchange({}, {p: [spec, spec] for p in peers(mesh)}, operation=0)
        assert (sending.bytes_sent, sending.messages, sending.rounds) == (320, 2, 0)
        assert (receiving.bytes_sent, receiving.bytes_received, receiving.rounds) == (0, 320, 1)
        assert (cost.bytes_sent, cost.bytes_received, cost.rounds) == (320, 320, 1)
        assert (stats.bytes_sent, stats.messages, stats.rounds) == (320, 2, 1)
        assert stats.seconds_waiting >= max(p.seconds_waiting for p in stats.peers.values()) > 0
        assert all((p.bytes_sent, p.messages) == (160, 1) for p in stats.peers.values())
        assert all((p.bytes_received, p.rounds) == (160, 1) for p in stats.peers.values())
        assert set(stats.scopes) == {"all", "all/send", "all/receive"}
        assert all((p.bytes_sent, p.rounds) == (160, 0) for p in sending.peers.values())
        assert all((p.bytes_received, p.rounds) == (160, 1) for p in receiving.peers.values())
        assert cost.peers == stats.scopes["all"].peers

    run(kind, program, 3).values()


def test_a_shaped_link_takes_its_time(kind: str) -> None:
    slow = {"default": {"latency": 0.05, "bandwidth": 8e6}, (0, 2): "loopback"}

    def program(mesh: Mesh) -> float:
        mesh.exchange({p: [torch.zeros(1)] for p in peers(mesh)}, dict.fromkeys(peers(mesh), ONE))
        started = time.monotonic()
        if mesh.rank == 0:
            for _ in range(2):  # 100 kB at 8 Mbit/s are 0.1 s; the second waits for the first
                mesh.exchange({p: [torch.zeros(100_000, dtype=torch.uint8)] for p in (1, 2)}, {})
        else:
            for _ in range(2):
                mesh.exchange({}, {0: [Spec((100_000,), torch.uint8)]})
        return time.monotonic() - started

    _, shaped, free = run(kind, program, 3, network=slow).values()
    assert shaped > 0.15  # 0.25 s after the send, which may be earlier than this party's clock
    assert free < shaped


def test_a_peer_that_does_not_exist_is_a_config_error(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        mesh.exchange({5: [torch.zeros(1)]}, {}) if mesh.rank == 0 else time.sleep(0.1)

    error = run(kind, program)[0]
    assert isinstance(error, ConfigError)
    assert "there is no peer 5" in str(error)


def test_a_party_may_end_before_the_others(kind: str) -> None:
    def program(mesh: Mesh) -> int:
        if mesh.rank == 2:
            mesh.exchange({0: [torch.tensor(2)]}, {})
            return 2
        peer, spec = 1 - mesh.rank, [Spec((), torch.int64)]
        mesh.exchange({}, {2: spec}) if mesh.rank == 0 else mesh.exchange({}, {})
        time.sleep(0.2)
        return int(mesh.exchange({peer: [torch.tensor(mesh.rank)]}, {peer: spec})[peer][0])

    assert run(kind, program, 3).values() == [1, 0, 2]
