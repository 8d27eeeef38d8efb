"""Checks of channels when all parties run the same program: see `channels`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..errors import ConfigError
from ..transport import Limits, Mesh, Spec, Tiled

Start = Callable[..., list[Any]]  # see `ChannelSuite.start`

LONG = 60.0  # seconds; a wait that a slow machine keeps
BIG = 1 << 20  # int64 elements: more than a connection holds
DTYPES = (torch.int32, torch.int64, torch.uint8, torch.bool, torch.float32, torch.bfloat16)
SHAPES = ((), (0,), (1,), (7,), (2, 3), (4, 0, 2), (5, 1, 3), (1, 2, 3, 4))
ONE = [Spec((1,), torch.int64)]


def one() -> list[Tensor]:
    """Returns a message of one number."""
    return [torch.ones(1, dtype=torch.int64)]


def peers(mesh: Mesh) -> list[int]:
    """Returns the ranks of all other parties."""
    return [rank for rank in range(mesh.parties) if rank != mesh.rank]


def values(results: list[Any]) -> list[Any]:
    """Returns the results if every party returned one; raises the first error otherwise."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _filled(spec: Spec, seed: int) -> Tensor:
    numbers = torch.arange(torch.Size(spec.shape).numel()) * 37 + seed
    return (numbers % 251).reshape(spec.shape).to(spec.dtype)


def check_tensors_arrive_as_they_were_sent(start: Start) -> None:
    same_shape = [[Spec(shape, dtype) for dtype in DTYPES] for shape in SHAPES]
    same_dtype = [[Spec(shape, dtype) for shape in SHAPES] for dtype in DTYPES]
    rounds = [[], *([spec] for specs in same_shape for spec in specs), *same_shape, *same_dtype]

    def program(mesh: Mesh) -> None:
        peer = 1 - mesh.rank
        for specs in rounds:
            sent = [_filled(spec, mesh.rank) for spec in specs]
            got = mesh.exchange({peer: sent}, {peer: specs})[peer]
            assert [t.dtype for t in got] == [spec.dtype for spec in specs]
            assert [tuple(t.shape) for t in got] == [spec.shape for spec in specs]
            assert all(torch.equal(t, _filled(s, peer)) for t, s in zip(got, specs, strict=True))

    values(start(program))


def check_views_arrive_whole(start: Start) -> None:
    base = torch.arange(24).reshape(4, 6)
    views = [base.T, base[::2, 1::2], base[0, 0], torch.tensor(7).expand(3, 2)]

    def program(mesh: Mesh) -> bool:
        specs = [Spec(tuple(view.shape), view.dtype) for view in views]
        if mesh.rank == 0:
            mesh.exchange({1: views}, {})
            return True
        return all(map(torch.equal, mesh.exchange({}, {0: specs})[0], views))

    assert values(start(program)) == [True, True]


def check_messages_keep_their_order(start: Start) -> None:
    sizes = [1, 200_000, 3, 0, 50_000, 1, 300_000, 2]

    def program(mesh: Mesh) -> list[int]:
        if mesh.rank == 0:
            for index, size in enumerate(sizes):
                mesh.exchange({1: [torch.full((size + 1,), index)]}, {})
            return []
        specs = [[Spec((size + 1,), torch.int64)] for size in sizes]
        return [int(mesh.exchange({}, {0: spec})[0][0][-1]) for spec in specs]

    assert values(start(program))[1] == list(range(len(sizes)))


def check_memory_that_stays_is_sent_and_received_many_times(start: Start) -> None:
    """In fixed rounds where a channel has them; what is sent may be overwritten at once."""
    small, large = [Spec((3,), torch.int64), Spec((), torch.uint8)], [Spec((9, 999), torch.int32)]

    def program(mesh: Mesh) -> None:
        peer = 1 - mesh.rank
        for specs in ([], small, large):
            own, places = ([torch.empty(s.shape, dtype=s.dtype) for s in specs] for _ in range(2))
            fixed = mesh.fixed_round({peer: own}, {peer: places}, ahead=False)
            for seed in range(4):
                for x, spec in zip(own, specs, strict=True):
                    x.copy_(_filled(spec, 10 * seed + mesh.rank))
                send = {peer: [x.clone() for x in own]}
                if fixed is None:
                    opened = mesh.begin(send, {peer: specs}, operation=seed, into={peer: places})
                else:
                    mesh.begin_fixed(fixed, seed)
                for x in own:
                    x.fill_(1)
                got = places
                if fixed is None:
                    got = mesh.finish(opened)[peer]
                else:
                    mesh.finish_fixed(fixed)
                wanted = [_filled(spec, 10 * seed + peer) for spec in specs]
                assert all(map(torch.equal, got, wanted))

    values(start(program))


def check_large_messages_cross_without_a_deadlock(start: Start) -> None:
    def program(mesh: Mesh) -> bool:
        own = torch.full((BIG,), mesh.rank)
        got = mesh.exchange(
            {peer: [own] for peer in peers(mesh)},
            {peer: [Spec((BIG,), torch.int64)] for peer in peers(mesh)},
        )
        return all(bool((got[peer][0] == peer).all()) for peer in peers(mesh))

    assert all(values(start(program, 3, limits=Limits(max_queued_bytes=1 << 20))))


def check_a_tensor_may_be_computed_while_it_is_sent(start: Start) -> None:
    """It arrives as one message, between two others, at the cost of one."""
    rows, row = 6, 1 << 14

    def computing(whole: Tensor) -> Iterator[int]:
        for i in range(rows):
            whole[i] = i * 3 + 1
            yield i + 1

    def program(mesh: Mesh) -> tuple[list[int], int]:
        whole, peer = torch.zeros(rows, row, dtype=torch.int64), 1 - mesh.rank
        tiled, found = Tiled(whole, computing(whole)), []
        sent: list[Tensor | Tiled] = [*one(), tiled, *one()]
        for tensor in sent:
            spec = Spec((rows, row), torch.int64) if tensor is tiled else ONE[0]
            [got] = mesh.exchange({peer: [tensor]}, {peer: [spec]})[peer]
            found.append(int(got.sum()))
        return found, mesh.stats.messages

    total = row * sum(i * 3 + 1 for i in range(rows))
    assert values(start(program)) == [([1, total, 1], 3)] * 2


def check_a_send_does_not_wait_for_the_receiver(start: Start) -> None:
    sent = threading.Event()

    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange({1: [torch.zeros(BIG, dtype=torch.int64)]}, {})
            sent.set()
        else:
            assert sent.wait(LONG)
            mesh.exchange({}, {0: [Spec((BIG,), torch.int64)]})

    values(start(program))


def check_a_full_queue_holds_the_sender_back(start: Start) -> None:
    count, sent = 8, threading.Event()

    def program(mesh: Mesh) -> None:
        for _ in range(count):
            if mesh.rank == 0:
                mesh.exchange({1: [torch.zeros(BIG, dtype=torch.int64)]}, {})
        if mesh.rank == 0:
            sent.set()
            return
        assert not sent.wait(0.3)  # 64 MB do not fit in a queue of 1 MB
        for _ in range(count):
            mesh.exchange({}, {0: [Spec((BIG,), torch.int64)]})

    values(start(program, limits=Limits(max_queued_bytes=1 << 20)))


def check_bytes_of_any_length(start: Start) -> None:
    def program(mesh: Mesh) -> dict[int, bytes]:
        own = bytes([mesh.rank]) * mesh.rank * 40_000
        return mesh.exchange_bytes(dict.fromkeys(peers(mesh), own), peers(mesh))

    assert values(start(program, 3))[0] == {1: b"\1" * 40_000, 2: b"\2" * 80_000}


def check_explicit_operations_leave_the_count_alone(start: Start) -> None:
    def program(mesh: Mesh) -> list[int]:
        peer, spec = 1 - mesh.rank, [Spec((), torch.int64)]
        numbers = [None, 1 << 63, None, 0]
        return [
            int(mesh.exchange({peer: [torch.tensor(n or 5)]}, {peer: spec}, operation=o)[peer][0])
            for n, o in enumerate(numbers)
        ]

    assert values(start(program)) == [[5, 1, 2, 3]] * 2


def check_stats_count_exactly(start: Start) -> None:
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
        assert all((p.bytes_sent, p.messages) == (160, 1) for p in stats.peers.values())
        assert all((p.bytes_received, p.rounds) == (160, 1) for p in stats.peers.values())
        assert set(stats.scopes) == {"all", "all/send", "all/receive"}
        assert all((p.bytes_sent, p.rounds) == (160, 0) for p in sending.peers.values())
        assert all((p.bytes_received, p.rounds) == (160, 1) for p in receiving.peers.values())
        assert cost.peers == stats.scopes["all"].peers

    values(start(program, 3))


def check_a_shaped_link_takes_its_time(start: Start) -> None:
    slow = {"default": {"latency": 0.05, "bandwidth": 8e6}, (0, 2): "loopback"}

    def program(mesh: Mesh) -> float:
        ready = dict.fromkeys(peers(mesh), ONE)
        mesh.exchange({peer: one() for peer in peers(mesh)}, ready)
        started = time.monotonic()
        for _ in range(2):  # 100 kB at 8 Mbit/s take 0.1 s; the second waits for the first
            if mesh.rank == 0:
                mesh.exchange({p: [torch.zeros(100_000, dtype=torch.uint8)] for p in (1, 2)}, {})
            else:
                mesh.exchange({}, {0: [Spec((100_000,), torch.uint8)]})
        return time.monotonic() - started

    _, shaped, _ = values(start(program, 3, network=slow))
    assert shaped > 0.15  # 0.25 s after the send, which may be before `started` here


def check_a_peer_that_does_not_exist_is_a_config_error(start: Start) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange({5: one()}, {})

    error = start(program)[0]
    assert isinstance(error, ConfigError)
    assert "there is no peer 5" in str(error)


def check_a_party_may_end_before_the_others(start: Start) -> None:
    def program(mesh: Mesh) -> int:
        if mesh.rank == 2:
            mesh.exchange({0: [torch.tensor(2)]}, {})
            return 2
        peer, spec = 1 - mesh.rank, [Spec((), torch.int64)]
        mesh.exchange({}, {2: spec} if mesh.rank == 0 else {})
        assert mesh.channel(2).last_word(LONG) is not None
        return int(mesh.exchange({peer: [torch.tensor(mesh.rank)]}, {peer: spec})[peer][0])

    assert values(start(program, 3)) == [1, 0, 2]


CHECKS = (
    check_tensors_arrive_as_they_were_sent,
    check_views_arrive_whole,
    check_messages_keep_their_order,
    check_memory_that_stays_is_sent_and_received_many_times,
    check_large_messages_cross_without_a_deadlock,
    check_a_tensor_may_be_computed_while_it_is_sent,
    check_a_send_does_not_wait_for_the_receiver,
    check_a_full_queue_holds_the_sender_back,
    check_bytes_of_any_length,
    check_explicit_operations_leave_the_count_alone,
    check_stats_count_exactly,
    check_a_shaped_link_takes_its_time,
    check_a_peer_that_does_not_exist_is_a_config_error,
    check_a_party_may_end_before_the_others,
)
