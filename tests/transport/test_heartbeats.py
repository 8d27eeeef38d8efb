"""A slow party is waited for; one that is dead, frozen or cut off is not.

The tests drive the clock: a second passes when all heartbeats of the one before have arrived.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from tests.transport.parties import SOCKETS, Address, Outcome, connected, hello, run, together
from tests.transport.proxy import Proxy

from tacit.errors import FrameRejected, PeerClosed, PeerTimeout, ProtocolDesync
from tacit.testing import ManualClock, until
from tacit.transport import Limits, Mesh, Spec
from tacit.transport.channel import Goodbye, LastWord, Message
from tacit.transport.wire import tls
from tacit.transport.wire.control import beat
from tacit.transport.wire.heartbeat import BEATS_PER_DEADLINE, Heartbeat
from tacit.transport.wire.socket_channel import SocketChannel

pytestmark = pytest.mark.parametrize("kind", SOCKETS)

DEADLINE = float(BEATS_PER_DEADLINE)  # a heartbeat every second
LIMITS = Limits(deadline=DEADLINE)
LONG = 60.0
ONE = [Spec((1,), torch.int64)]
BIG = 1 << 21


def one() -> list[torch.Tensor]:
    return [torch.ones(1, dtype=torch.int64)]


def channel(mesh: Mesh, peer: int) -> SocketChannel:
    found = mesh.channel(peer)
    assert isinstance(found, SocketChannel)
    return found


def fall_silent(mesh: Mesh) -> None:
    """As if the process were frozen: its connections are open and nothing comes."""
    for peer in range(mesh.parties):
        if peer != mesh.rank:
            channel(mesh, peer)._heartbeat.stop()


class Stage:
    """Connected parties on a clock that the test drives."""

    def __init__(self, kind: str, parties: int = 2, limits: Limits = LIMITS, **how: Any) -> None:
        self.clock = ManualClock()
        self.meshes = connected(kind, parties, limits=limits, clock=self.clock, **how)
        self.ended = threading.Event()  # a party has returned or raised
        self.silent: list[int] = []

    def play(self, *programs: Callable[[Mesh], Any]) -> Outcome:
        """Runs a program at each party."""
        pairs = zip(self.meshes, programs, strict=True)
        return together(*(lambda m=mesh, p=program: self._inside(m, p) for mesh, program in pairs))

    def _inside(self, mesh: Mesh, program: Callable[[Mesh], Any]) -> Any:
        with mesh:
            try:
                return program(mesh)
            finally:
                self.ended.set()

    def silence(self, rank: int) -> None:
        fall_silent(self.meshes[rank])
        self.silent.append(rank)

    def await_waiting(self, *ranks: int) -> None:
        until(lambda: all(self.meshes[rank].waiting_for for rank in ranks))

    def second(self, *, at: Sequence[int]) -> None:
        """A second passes: all but the silent send a heartbeat, and the parties `at` hear it."""
        parties = range(len(self.meshes))
        beating = [rank for rank in parties if rank not in self.silent]
        pairs = [(rank, peer) for rank in beating for peer in parties if rank != peer]
        until(
            lambda: (
                self.ended.is_set()
                or (
                    self.clock.waiters == len(pairs)
                    and not any(self._stream(*pair).unacknowledged() for pair in pairs)
                )
            )
        )
        self.clock.advance(1.0)
        heard = [(rank, peer) for rank, peer in pairs if peer in at]
        until(
            lambda: (
                self.ended.is_set()
                or all(
                    channel(self.meshes[peer], rank).heard >= self.clock.now()
                    for rank, peer in heard
                )
            )
        )

    def _stream(self, rank: int, peer: int) -> Any:
        return channel(self.meshes[rank], peer).incoming


def test_a_party_that_computes_for_long_is_waited_for(kind: str) -> None:
    stage = Stage(kind)

    def exchange(mesh: Mesh) -> tuple[int, int]:
        got = mesh.exchange({1 - mesh.rank: one()}, {1 - mesh.rank: ONE})
        assert int(got[1 - mesh.rank][0]) == 1
        return mesh.stats.bytes_sent, mesh.stats.messages

    def compute(mesh: Mesh) -> tuple[int, int]:
        for _ in range(4 * BEATS_PER_DEADLINE):
            stage.second(at=[0])
        return exchange(mesh)

    assert stage.play(exchange, compute).values() == [(8, 1)] * 2  # heartbeats do not count


def test_a_party_that_takes_nothing_for_long_is_waited_for(kind: str) -> None:
    """More than the connection holds; the sender computes on, and nobody looks meanwhile."""
    stage, computed = Stage(kind), threading.Event()

    def send(mesh: Mesh) -> int:
        for _ in range(4):
            mesh.exchange({1: [torch.ones(BIG, dtype=torch.int64)]}, {})
        assert computed.wait(LONG)
        mesh.flush()
        return 0

    def take_late(mesh: Mesh) -> int:
        for _ in range(3 * BEATS_PER_DEADLINE):
            stage.second(at=[])
        computed.set()
        for _ in range(2 * BEATS_PER_DEADLINE):
            stage.second(at=[0])
        big = [Spec((BIG,), torch.int64)]
        return sum(int(mesh.exchange({}, {0: big})[0][0][-1]) for _ in range(4))

    assert stage.play(send, take_late).values() == [0, 4]


def test_heartbeats_are_heard_while_a_renewal_of_tls_waits(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that sends takes them from the socket; the one that waits hears of them."""
    if kind != "tls":
        pytest.skip("nothing is renewed without TLS")
    monkeypatch.setattr(tls, "RENEW_BYTES", 3_000)
    stage, computed = Stage(kind), threading.Event()

    def send(mesh: Mesh) -> int:
        mesh.exchange({1: [torch.ones(10_000, dtype=torch.int64)]}, {})
        assert computed.wait(LONG)
        mesh.flush()
        return 0

    def take_late(mesh: Mesh) -> int:
        for _ in range(3 * BEATS_PER_DEADLINE):
            stage.second(at=[])
        computed.set()
        for _ in range(2 * BEATS_PER_DEADLINE):
            stage.second(at=[0])
        return int(mesh.exchange({}, {0: [Spec((10_000,), torch.int64)]})[0][0][-1])

    assert stage.play(send, take_late).values() == [0, 1]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_goodbye_that_overtakes_a_message_ends_nothing(kind: str, is_lost: bool) -> None:
    """It takes another connection, and a relay may be late with one of them."""
    looks: list[bool] = []  # of party 1: whether it knew of the goodbye and found nothing

    def program(mesh: Mesh) -> int:
        here = channel(mesh, 1 - mesh.rank)
        if mesh.rank == 1:
            recv = here.recv

            def look(**options: bool) -> Message | None:
                is_known = 0 in mesh._last_words
                found = recv(**options)
                looks.append(is_known and found is None)
                return found

            here.recv = look  # type: ignore[method-assign]
            if is_lost:
                with pytest.raises(PeerClosed, match=r"lost|ended"):
                    mesh.exchange({}, {0: [Spec((4,), torch.int64)]})
                return 7
            return int(mesh.exchange({}, {0: [Spec((4,), torch.int64)]})[0][0][-1])
        held: list[Any] = []
        say, send = here.say, here._sender.send

        def say_first(word: LastWord) -> None:
            say(word)
            until(lambda: any(looks))
            if not is_lost:
                (args, options) = held[0]
                send(*args, **options)
                here._sender.flush()

        here._sender.send = lambda *args, **options: held.append((args, options))  # type: ignore
        here.say = say_first  # type: ignore[method-assign]
        mesh.exchange({1: [torch.full((4,), 7)]}, {})
        return 7

    assert run(kind, program, limits=Limits(deadline=LONG)).values() == [7, 7]


def test_what_was_sent_arrives_though_its_sender_has_ended(kind: str) -> None:
    """Heartbeats come to a party that is gone: what it had sent must not be lost by that."""
    stage = Stage(kind)

    def send(mesh: Mesh) -> int:
        mesh.exchange({1: [torch.full((4000,), 7)]}, {})
        return 7

    def take_late(mesh: Mesh) -> int:
        here, beats = channel(mesh, 0), [0]
        assert here.last_word(LONG) == Goodbye(sent=1)
        until(here.incoming.ended)

        def count() -> bool:
            beats[0] += 1
            return False

        here._heartbeat._stuck = count
        until(lambda: stage.clock.waiters == 1)
        stage.clock.advance(1.0)
        until(lambda: beats[0] == 1 and stage.clock.waiters == 1)  # it is written
        return int(mesh.exchange({}, {0: [Spec((4000,), torch.int64)]})[0][0][-1])

    assert stage.play(send, take_late).values() == [7, 7]


def test_a_last_message_after_the_deadline_arrives_with_its_goodbye(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party looks at its connections between the last message of a slow peer and its end."""
    stage = Stage(kind)
    is_late, looks_elsewhere, has_ended = (threading.Event() for _ in range(3))
    listen = Mesh._listen

    def listen_after_the_end(mesh: Mesh, peers: Any, seconds: float) -> None:
        if mesh.rank == 0 and is_late.is_set():
            looks_elsewhere.set()
            has_ended.wait(LONG)
        listen(mesh, peers, seconds)

    monkeypatch.setattr(Mesh, "_listen", listen_after_the_end)

    def wait(mesh: Mesh) -> int:
        return int(mesh.exchange({}, {1: ONE})[1][0])

    def compute_and_end(mesh: Mesh) -> int:
        stage.await_waiting(0)
        for _ in range(2 * BEATS_PER_DEADLINE):
            stage.second(at=[0])
        is_late.set()
        assert looks_elsewhere.wait(LONG)
        mesh.exchange({0: one()}, {})
        mesh.close()
        has_ended.set()
        return 1

    assert stage.play(wait, compute_and_end).values() == [1, 1]


def test_patience_ends_too(kind: str) -> None:
    stage = Stage(kind, limits=Limits(deadline=DEADLINE, patience=12.0))

    def wait(mesh: Mesh) -> None:
        mesh.exchange({}, {1 - mesh.rank: ONE})

    def compute(mesh: Mesh) -> None:
        stage.await_waiting(0)
        for _ in range(12):
            stage.second(at=[0])
        assert not stage.ended.is_set()
        stage.clock.advance(1.0)
        assert mesh.channel(0).last_word(LONG) is not None

    error = stage.play(wait, compute)[0]
    assert isinstance(error, PeerTimeout)
    assert error.alive
    assert (error.party, error.operation) == (1, 0)
    assert "party 1 is alive but sent nothing for 12.0 s, the limit of patience" in str(error)
    assert "raise patience in the party file" in str(error)


def test_a_party_without_a_heartbeat_is_given_up_at_the_deadline(kind: str) -> None:
    stage = Stage(kind)

    def wait(mesh: Mesh) -> None:
        mesh.exchange({}, {1: ONE})

    def be_silent(mesh: Mesh) -> None:
        stage.silence(1)
        stage.await_waiting(0)
        stage.clock.advance(0.98 * DEADLINE)
        await_looks(stage.meshes[0])
        assert not stage.ended.is_set()
        stage.clock.advance(0.04 * DEADLINE)
        assert stage.ended.wait(LONG)

    error = stage.play(wait, be_silent)[0]
    assert isinstance(error, PeerTimeout)
    assert "not even a heartbeat" in str(error)
    assert "; look at what it printed" in str(error)
    assert (error.party, error.operation) == (1, 0)
    assert not error.alive


def await_looks(mesh: Mesh, count: int = 3) -> None:
    """Waits until a party that waits has looked at the clock so many times."""
    looks, wait = [0], mesh._poller.wait

    def counted(peers: Any, seconds: float) -> Any:
        looks[0] += 1
        return wait(peers, min(seconds, 0.01))

    mesh._poller.wait = counted  # type: ignore[method-assign]
    until(lambda: looks[0] >= count)


def test_a_party_without_a_heartbeat_that_takes_nothing_is_given_up(kind: str) -> None:
    stage = Stage(kind)

    def send_much(mesh: Mesh) -> None:
        mesh.exchange({1: [torch.ones(8 * BIG, dtype=torch.int64)]}, {})
        mesh.flush()

    def be_silent(mesh: Mesh) -> None:
        stage.silence(1)
        while not stage.ended.wait(0.1):
            stage.clock.advance(1.2 * DEADLINE)

    error = stage.play(send_much, be_silent)[0]
    assert isinstance(error, PeerTimeout)
    assert "not even a heartbeat" in str(error)
    assert (error.party, error.operation) == (1, 0)
    assert not error.alive


def test_all_learn_that_a_party_has_no_heartbeat(kind: str) -> None:
    """Party 1 waits for party 0, which waits for the silent one."""
    stage = Stage(kind, 3)

    def be_silent(mesh: Mesh) -> None:
        stage.silence(2)
        stage.await_waiting(0, 1)
        for _ in range(BEATS_PER_DEADLINE + 1):
            assert not stage.ended.is_set()
            stage.second(at=[0, 1])
        assert mesh.channel(0).last_word(LONG) is not None
        assert mesh.channel(1).last_word(LONG) is not None

    def wait(mesh: Mesh) -> None:
        mesh.exchange({}, {2 if mesh.rank == 0 else 0: ONE})

    zero, one_, _ = stage.play(wait, wait, be_silent)
    assert isinstance(zero, PeerTimeout)
    assert isinstance(one_, PeerClosed)
    assert zero.party == one_.party == 2
    assert "given up at " in str(one_)
    assert "no heartbeat, says party 0" in str(one_)


def test_a_chain_of_silence_leads_to_the_silent_party(kind: str) -> None:
    """Party 1 waits for party 0, which waits for party 2, which is alive and sends nothing."""
    stage = Stage(kind, 3, Limits(deadline=DEADLINE, patience=DEADLINE))

    def wait(mesh: Mesh) -> None:
        mesh.exchange({}, {2 if mesh.rank == 0 else 0: ONE})

    def compute(mesh: Mesh) -> None:
        stage.await_waiting(0, 1)
        for _ in range(BEATS_PER_DEADLINE):
            stage.second(at=[0, 1])
        assert not stage.ended.is_set()
        stage.clock.advance(1.0)
        assert mesh.channel(0).last_word(LONG) is not None

    zero, one_, _ = stage.play(wait, wait, compute)
    assert isinstance(zero, PeerTimeout)
    assert isinstance(one_, PeerClosed)
    assert zero.party == one_.party == 2


def test_parties_that_wait_for_each_other_are_not_patient(kind: str) -> None:
    stage = Stage(kind, 3)

    def wait(mesh: Mesh) -> None:
        mesh.exchange({}, {(mesh.rank + 1) % 3: ONE})

    def drive() -> None:
        stage.await_waiting(0, 1, 2)
        for _ in range(3 * BEATS_PER_DEADLINE):
            if not stage.ended.is_set():
                stage.second(at=[0, 1, 2])

    driver = threading.Thread(target=drive)
    driver.start()
    errors = stage.play(wait, wait, wait)
    driver.join()
    assert all(isinstance(error, ProtocolDesync | PeerClosed) for error in errors)
    assert any("waits too, as all do" in str(error) for error in errors)


def test_one_party_that_computes_is_enough_to_be_patient(kind: str) -> None:
    """0 waits for 1, which waits for 2: two of three are stuck, for longer than the deadline."""
    stage = Stage(kind, 3)

    def first(mesh: Mesh) -> int:
        return int(mesh.exchange({}, {1: ONE}, operation=1)[1][0])

    def second(mesh: Mesh) -> int:
        mesh.exchange({0: mesh.exchange({}, {2: ONE})[2]}, {}, operation=1)
        return 1

    def compute(mesh: Mesh) -> int:
        stage.await_waiting(0, 1)
        for _ in range(5 * BEATS_PER_DEADLINE):
            stage.second(at=[0, 1])
        mesh.exchange({1: one()}, {})
        return 1

    assert stage.play(first, second, compute).values() == [1, 1, 1]


def test_heartbeats_in_the_midst_of_a_long_message(kind: str) -> None:
    """The sender of a message trickles it, slowly but surely, while its heart beats."""
    stage = Stage(kind)

    def send(mesh: Mesh) -> bool:
        out = channel(mesh, 1).outgoing
        write = out.write
        out.write = lambda parts, **how: slowly(write, parts, **how)  # type: ignore[method-assign]
        mesh.exchange({1: [torch.arange(40_000)]}, {})
        return True

    def slowly(write: Any, parts: Any, **how: Any) -> int:
        stage.clock.advance(0.9 * DEADLINE)
        sent = int(write([memoryview(parts[0])[:20_000]], **how))
        if sent > 16_384:
            taken = channel(stage.meshes[1], 0)._receiver
            until(lambda: taken.progress >= stage.clock.now() or stage.ended.is_set())
        return sent

    def take(mesh: Mesh) -> bool:
        got = mesh.exchange({}, {0: [Spec((40_000,), torch.int64)]})[0][0]
        return torch.equal(got, torch.arange(40_000))

    assert stage.play(send, take).values() == [True, True]


def test_a_heartbeat_is_checked(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            fall_silent(mesh)
            channel(mesh, 1).incoming.write((beat(bytes(16), False),))  # of another session
            assert mesh.channel(1).last_word(LONG) is not None
        mesh.exchange({}, {1 - mesh.rank: ONE})

    error = run(kind, program, limits=Limits(deadline=LONG))[1]
    assert isinstance(error, FrameRejected)
    assert error.party == 0


def test_heartbeats_that_nobody_reads_leave_room_for_the_last_word(kind: str) -> None:
    """Party 0 reads nothing while party 1 would like to send millions of heartbeats."""
    done = threading.Event()

    def program(mesh: Mesh) -> None:
        here = channel(mesh, 1 - mesh.rank)
        if mesh.rank == 1:
            here._heartbeat.stop()
            sent = [0]

            def count() -> bool:
                sent[0] += 1
                return False

            quick = Heartbeat(here.incoming, hello(1).session, peer=0, seconds=1e-6, stuck=count)
            until(lambda: sent[0] > 10)
            quick.say(Goodbye())
            quick.stop()
            done.set()
            return
        assert done.wait(LONG)
        assert here.last_word(LONG) == Goodbye()

    run(kind, program, limits=Limits(deadline=LONG)).values()


@pytest.mark.parametrize("sending", [True, False])
def test_a_link_that_drops_everything_is_noticed_by_both(kind: str, sending: bool) -> None:
    with ExitStack() as stack:
        proxies: list[Proxy] = []

        def road(address: Address) -> Address:
            proxies.append(stack.enter_context(Proxy(address)))
            return proxies[-1].address

        stage = Stage(kind, roads=road)
        blocked = threading.Barrier(3, timeout=LONG)
        noticed = threading.Barrier(3, timeout=LONG)

        def program(mesh: Mesh) -> None:
            peer = 1 - mesh.rank
            mesh.exchange({peer: one()}, {peer: ONE})
            blocked.wait()
            for proxy in proxies:
                proxy.blocked.set()
            blocked.wait()
            with pytest.raises(PeerTimeout, match=f"party {peer} sent nothing .* heartbeat"):
                mesh.exchange({peer: one()} if sending else {}, {peer: ONE})
            noticed.wait()

        def drive() -> None:
            for _ in range(2):  # parties also wait for each other in the exchange before
                blocked.wait()
            stage.await_waiting(0, 1)
            stage.clock.advance(1.2 * DEADLINE)
            noticed.wait()

        driver = threading.Thread(target=drive)
        driver.start()
        stage.play(program, program).values()
        driver.join()


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

    limits = Limits(deadline=LONG)
    assert all(0.2 <= seconds < LONG for seconds in run(kind, program, limits=limits).values())
