"""A slow party is waited for; one that is dead, frozen or cut off is not."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from tests.transport.parties import SOCKETS, Address, hello, run
from tests.transport.proxy import Proxy

from tacit.errors import FrameRejected, PeerClosed, PeerTimeout, ProtocolDesync
from tacit.transport import Limits, Mesh, Spec
from tacit.transport.channel import Goodbye
from tacit.transport.wire.control import beat
from tacit.transport.wire.heartbeat import Heartbeat
from tacit.transport.wire.socket_channel import SocketChannel

pytestmark = pytest.mark.parametrize("kind", SOCKETS)

DEADLINE = 0.5
LIMITS = Limits(deadline=DEADLINE, connect_deadline=5.0)
ONE = [Spec((1,), torch.int64)]
BIG = 1 << 21


def one() -> list[torch.Tensor]:
    return [torch.ones(1, dtype=torch.int64)]


def channel(mesh: Mesh, peer: int) -> SocketChannel:
    found = mesh._channels[peer]
    assert isinstance(found, SocketChannel)
    return found


def fall_silent(mesh: Mesh) -> None:
    """As if the process were frozen: its connections are open and nothing comes."""
    for peer in range(mesh.parties):
        if peer != mesh.rank:
            channel(mesh, peer)._heartbeat.stop()


def test_a_party_that_computes_for_long_is_waited_for(kind: str) -> None:
    def program(mesh: Mesh) -> tuple[int, int]:
        if mesh.rank == 1:
            time.sleep(4 * DEADLINE)
        got = mesh.exchange({1 - mesh.rank: one()}, {1 - mesh.rank: ONE})
        assert int(got[1 - mesh.rank][0]) == 1
        return mesh.stats.bytes_sent, mesh.stats.messages

    assert run(kind, program, limits=LIMITS).values() == [(8, 1)] * 2  # heartbeats do not count


def test_a_party_that_takes_nothing_for_long_is_waited_for(kind: str) -> None:
    """More than the connection holds; the sender computes on, and nobody looks meanwhile."""

    def program(mesh: Mesh) -> int:
        if mesh.rank == 0:
            for _ in range(4):
                mesh.exchange({1: [torch.ones(BIG, dtype=torch.int64)]}, {})
            time.sleep(3 * DEADLINE)
            mesh.flush()
            return 0
        time.sleep(5 * DEADLINE)
        big = [Spec((BIG,), torch.int64)]
        return sum(int(mesh.exchange({}, {0: big})[0][0][-1]) for _ in range(4))

    assert run(kind, program, limits=LIMITS).values() == [0, 4]


def test_what_was_sent_arrives_though_its_sender_has_ended(kind: str) -> None:
    """Heartbeats come to a party that is gone: what it had sent must not be lost by that."""

    def program(mesh: Mesh) -> int:
        if mesh.rank == 0:
            mesh.exchange({1: [torch.full((100_000,), 7)]}, {})
            return 7
        time.sleep(3 * DEADLINE)
        return int(mesh.exchange({}, {0: [Spec((100_000,), torch.int64)]})[0][0][-1])

    assert run(kind, program, limits=LIMITS).values() == [7, 7]


def test_patience_ends_too(kind: str) -> None:
    limits = Limits(deadline=0.3, patience=1.2, connect_deadline=5.0)

    def program(mesh: Mesh) -> None:
        if mesh.rank == 1:
            time.sleep(2)
        mesh.exchange({}, {1 - mesh.rank: ONE})

    started = time.monotonic()
    error = run(kind, program, limits=limits)[0]
    assert 1.2 < time.monotonic() - started < 5
    assert isinstance(error, PeerTimeout)
    assert error.alive
    assert (error.party, error.operation) == (1, 0)
    assert "party 1 is alive but sent nothing for 1.2 s, the limit of patience" in str(error)


@pytest.mark.parametrize("sending", [True, False])
def test_a_party_without_a_heartbeat_is_given_up_at_the_deadline(kind: str, sending: bool) -> None:
    over = threading.Event()

    def program(mesh: Mesh) -> float:
        if mesh.rank == 1:
            fall_silent(mesh)
            assert over.wait(10)
            return 0.0
        started = time.monotonic()
        try:
            with pytest.raises(PeerTimeout, match="not even a heartbeat") as info:
                send_much(mesh) if sending else mesh.exchange({}, {1: ONE})
        finally:
            over.set()
        assert (info.value.party, info.value.operation) == (1, 0)
        assert not info.value.alive
        return time.monotonic() - started

    def send_much(mesh: Mesh) -> None:
        mesh.exchange({1: [torch.ones(8 * BIG, dtype=torch.int64)]}, {})
        mesh.flush()

    seconds = run(kind, program, limits=LIMITS)[0]
    assert seconds < DEADLINE + 0.8


def test_all_learn_that_a_party_has_no_heartbeat(kind: str) -> None:
    """Party 1 waits for party 0, which waits for the silent one."""
    over = threading.Event()

    def program(mesh: Mesh) -> None:
        if mesh.rank == 2:
            fall_silent(mesh)
            assert over.wait(10)
            return
        try:
            mesh.exchange({}, {2 if mesh.rank == 0 else 0: ONE})
        finally:
            over.set() if mesh.rank == 1 else None

    zero, one_, _ = run(kind, program, 3, limits=LIMITS)
    assert isinstance(zero, PeerTimeout)
    assert isinstance(one_, PeerClosed)
    assert zero.party == one_.party == 2
    assert "given up at operation" in str(one_)
    assert "no heartbeat, says party 0" in str(one_)


def test_parties_that_wait_for_each_other_are_not_patient(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        mesh.exchange({}, {(mesh.rank + 1) % 3: ONE})

    started = time.monotonic()
    errors = run(kind, program, 3, limits=LIMITS)
    assert time.monotonic() - started < 5
    assert all(isinstance(error, ProtocolDesync | PeerClosed) for error in errors)
    assert any("waits too, as all do" in str(error) for error in errors)


def test_one_party_that_computes_is_enough_to_be_patient(kind: str) -> None:
    """0 waits for 1, which waits for 2: two of three are stuck, for longer than the deadline."""

    def program(mesh: Mesh) -> int:
        if mesh.rank == 2:
            time.sleep(5 * DEADLINE)
            mesh.exchange({1: one()}, {})
        elif mesh.rank == 1:
            mesh.exchange({0: mesh.exchange({}, {2: ONE})[2]}, {}, operation=1)
        else:
            return int(mesh.exchange({}, {1: ONE}, operation=1)[1][0])
        return 1

    assert run(kind, program, 3, limits=LIMITS).values() == [1, 1, 1]


def test_heartbeats_in_the_midst_of_a_long_message(kind: str) -> None:
    """The sender of a message trickles it, slowly but surely, while its heart beats."""

    def program(mesh: Mesh) -> bool:
        if mesh.rank == 0:
            out = channel(mesh, 1).outgoing
            write = out.write
            out.write = lambda parts, **how: slowly(write, parts, **how)  # type: ignore[method-assign]
            mesh.exchange({1: [torch.arange(40_000)]}, {})
            return True
        got = mesh.exchange({}, {0: [Spec((40_000,), torch.int64)]})[0][0]
        return torch.equal(got, torch.arange(40_000))

    def slowly(write: Any, parts: Any, **how: Any) -> int:
        time.sleep(0.1)
        return int(write([memoryview(parts[0])[:20_000]], **how))

    assert run(kind, program, limits=LIMITS).values() == [True, True]


def test_a_heartbeat_is_checked(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            fall_silent(mesh)
            channel(mesh, 1).incoming.write((beat(bytes(16), False),))  # of another session
            time.sleep(0.5)
        mesh.exchange({}, {1 - mesh.rank: ONE})

    error = run(kind, program, limits=Limits(deadline=3.0))[1]
    assert isinstance(error, FrameRejected)
    assert error.party == 0


def test_heartbeats_that_nobody_reads_leave_room_for_the_last_word(kind: str) -> None:
    """Party 0 reads nothing while party 1 would like to send thousands of heartbeats."""
    done = threading.Event()

    def program(mesh: Mesh) -> None:
        here = channel(mesh, 1 - mesh.rank)
        if mesh.rank == 1:
            here._heartbeat.stop()
            quick = Heartbeat(here.incoming, hello(1).session, peer=0, seconds=1e-5, stuck=bool)
            time.sleep(1.0)
            quick.say(Goodbye())
            quick.stop()
            done.set()
            return
        assert done.wait(10)
        assert here.last_word(5.0) == Goodbye()

    run(kind, program).values()


@pytest.mark.parametrize("sending", [True, False])
def test_a_link_that_drops_everything_is_noticed_by_both(kind: str, sending: bool) -> None:
    with ExitStack() as stack:
        proxies: list[Proxy] = []
        both = threading.Barrier(2, timeout=10)

        def road(address: Address) -> Address:
            proxies.append(stack.enter_context(Proxy(address)))
            return proxies[-1].address

        def program(mesh: Mesh) -> float:
            peer = 1 - mesh.rank
            mesh.exchange({peer: one()}, {peer: ONE})
            both.wait()
            for proxy in proxies:
                proxy.blocked.set()
            started = time.monotonic()
            with pytest.raises(PeerTimeout, match=f"party {peer} sent nothing .* heartbeat"):
                talk(mesh, peer)
            return time.monotonic() - started

        def talk(mesh: Mesh, peer: int) -> None:
            while True:
                mesh.exchange({peer: one()} if sending else {}, {peer: ONE})

        for seconds in run(kind, program, limits=LIMITS, roads=road).values():
            assert seconds < DEADLINE + 0.8


def test_heartbeats_without_end_end_a_wait_for_a_last_word(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(mesh: Mesh) -> float:
        peer = channel(mesh, 1 - mesh.rank)
        flood = beat(peer._session, stuck=False)

        def read(view: memoryview, **_: Any) -> int:
            view[: len(flood)] = flood
            return len(flood)

        with monkeypatch.context() as patch:
            patch.setattr(peer.outgoing, "read", read)
            patch.setattr(peer.outgoing, "readable", lambda seconds: True)
            started = time.monotonic()
            assert peer.last_word() is None
            assert peer.last_word(0.2) is None
        return time.monotonic() - started

    assert all(0.2 <= seconds < 5.0 for seconds in run(kind, program, limits=LIMITS).values())
