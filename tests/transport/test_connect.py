"""How parties find each other, and whom they turn away."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from tests.transport.parties import (
    SOCKETS,
    certificate,
    delegated,
    hello,
    identity,
    run,
    together,
)
from tests.transport.proxy import Proxy

from tacit.errors import (
    CertificateRejected,
    ConfigError,
    ConnectError,
    ConnectTimeout,
    FrameRejected,
    HandshakeMismatch,
    PeerClosed,
    PeerTimeout,
    TransportError,
)
from tacit.testing import ManualClock, until
from tacit.transport import (
    SYSTEM_CLOCK,
    Clock,
    Hello,
    Identity,
    Limits,
    Listener,
    Mesh,
    Spec,
    connect,
    listen,
)
from tacit.transport.setup import rendezvous
from tacit.transport.setup.handshake import Verdict
from tacit.transport.wire.frames import HEADER, MAGIC, NO_DIGEST, VERSION, Kind, layout, pack
from tacit.transport.wire.tcp import dial

LONG = 60.0  # seconds; a wait that a busy machine keeps
LIMITS = Limits(deadline=LONG, connect_deadline=LONG)
ONE = [Spec((), torch.int64)]
Port = tuple[Listener, list[tuple[str, int]]]


@pytest.fixture(autouse=True)
def _insecure_is_known() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "parties talk over plain TCP")
        yield


def ports(parties: int) -> list[Port]:
    listeners = [listen("127.0.0.1", 0) for _ in range(parties)]
    addresses = [listener.address for listener in listeners]
    return [(listener, addresses) for listener in listeners]


def join(
    me: Hello,
    port: Port,
    who: Identity | None = None,
    limits: Limits = LIMITS,
    clock: Clock = SYSTEM_CLOCK,
    **options: Any,
) -> Mesh:
    options |= {"insecure_plain_tcp": who is None, "limits": limits, "clock": clock}
    return connect(me, *port, identity=who, **options)


class SharedClock(ManualClock):
    """A clock that knows how many parties have not ended yet."""

    parties = 0


def party(*args: Any, clock: Clock = SYSTEM_CLOCK, **options: Any) -> Callable[[], None]:
    if isinstance(clock, SharedClock):
        clock.parties += 1

    def program() -> None:
        try:
            join(*args, clock=clock, **options).close()
        finally:
            if isinstance(clock, SharedClock):
                clock.parties -= 1

    return program


def give_up(clock: SharedClock, when: Callable[[], bool] = lambda: True) -> Callable[[], None]:
    """Lets deadlines of connecting pass once a condition holds, also of a party that is late."""

    def program() -> None:
        until(when)
        while clock.parties:
            clock.advance(2 * LONG)
            time.sleep(0.02)

    return program


def then(*programs: Callable[[], object]) -> Callable[[], None]:
    """One program after another, also if one raises; the first error is raised in the end."""

    def program() -> None:
        with ExitStack() as stack:
            for one in reversed(programs):
                stack.callback(one)

    return program


def greeting(
    address: tuple[str, int], direction: bytes, stripe: int = 0, stripes: int = 1
) -> socket.socket:
    """A plain connection on which party 1 has said hello, and has been heard."""
    sock = socket.create_connection(address)
    body = hello(1).encode() + direction + bytes([stripe, stripes])
    head = HEADER.pack(MAGIC, VERSION, Kind.HELLO, 1, 0, bytes(16), 0, len(body), 0, NO_DIGEST)
    sock.sendall(head + body)
    assert sock.recv(4, socket.MSG_PEEK) == MAGIC
    return sock


@pytest.mark.parametrize("kind", SOCKETS)
@pytest.mark.parametrize("late", [0, 1, 2])
def test_parties_start_in_any_order(kind: str, late: int) -> None:
    doors = ports(3)
    who = [identity(rank, 3) if kind == "tls" else None for rank in range(3)]

    def program(rank: int) -> int:
        time.sleep(0.3 if rank == late else 0)
        with join(hello(rank, 3), doors[rank], who[rank]) as mesh:
            peer = (rank + 1) % 3
            got = mesh.exchange({peer: [torch.tensor(rank)]}, {(rank - 1) % 3: ONE})
            return int(got[(rank - 1) % 3][0])

    results = together(*(lambda rank=rank: program(rank) for rank in range(3)))
    assert results.values() == [2, 0, 1]


def test_a_party_may_open_its_port_late() -> None:
    doors = ports(2)
    address = doors[0][0].address
    doors[0][0].close()

    def late() -> None:
        time.sleep(0.4)
        join(hello(0), (listen(*address), doors[0][1])).close()

    together(late, party(hello(1), doors[1])).values()


@pytest.mark.parametrize("late", [0, 2])
def test_a_party_that_starts_much_later_is_waited_for(
    late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later than one attempt to connect takes, and than those here wait for messages."""
    monkeypatch.setattr(rendezvous, "_ATTEMPT_SECONDS", 0.1)
    clock = SharedClock()
    doors = ports(3)
    address = doors[late][0].address
    doors[late][0].close()
    limits = Limits(deadline=1.0, connect_deadline=20.0)

    def program(rank: int) -> list[bytes]:
        door = doors[rank]
        if rank == late:
            time.sleep(0.3)
            clock.advance(10.0)
            door = listen(*address), door[1]
        peers = [peer for peer in range(3) if peer != rank]
        with join(hello(rank, 3), door, identity(rank, 3), limits, clock) as mesh:
            return sorted(mesh.exchange_bytes(dict.fromkeys(peers, b"%d" % rank), peers).values())

    results = together(*(lambda rank=rank: program(rank) for rank in range(3)))
    assert results.values() == [[b"1", b"2"], [b"0", b"2"], [b"0", b"1"]]


def test_a_host_that_drops_packets_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody accepts: the queue of the port is full, and further connections get no answer."""
    monkeypatch.setattr(rendezvous, "_ATTEMPT_SECONDS", 0.2)
    door = socket.create_server(("127.0.0.1", 0), backlog=0)
    crowd = [socket.socket() for _ in range(3)]
    for sock in crowd:
        sock.setblocking(False)
        sock.connect_ex(door.getsockname())
    (own, _), (other, _) = ports(2)
    own.close()
    addresses = [door.getsockname(), other.address]

    def late() -> None:
        time.sleep(0.5)
        for sock in crowd:
            sock.close()
        door.setblocking(False)
        join(hello(0), (Listener(door), addresses)).close()

    together(late, party(hello(1), (other, addresses))).values()


@pytest.mark.parametrize("kind", SOCKETS)
def test_a_slow_link_only_slows_down(kind: str) -> None:
    """200 ms each way, also for the handshakes and the last words."""

    def program(mesh: Mesh) -> None:
        peers = [peer for peer in range(3) if peer != mesh.rank]
        for size in (1, 300_000):
            tensors, specs = [torch.zeros(size)], [Spec((size,), torch.float32)]
            mesh.exchange(dict.fromkeys(peers, tensors), dict.fromkeys(peers, specs))
        if mesh.rank == 2:
            raise KeyError
        mesh.exchange({}, {1 - mesh.rank: ONE})

    with ExitStack() as stack:

        def road(address: tuple[str, int]) -> tuple[str, int]:
            return stack.enter_context(Proxy(address, delay=0.2)).address

        zero, one, two = run(kind, program, 3, limits=LIMITS, roads=road)
    assert isinstance(two, KeyError)
    for error in (zero, one):
        assert isinstance(error, PeerClosed)
        assert "party 2 ended the run at operation 1: KeyError" in str(error)


@pytest.mark.parametrize(
    ("field", "value"),
    [("session", bytes(16)), ("parties", 3)],
)
@pytest.mark.parametrize("kind", SOCKETS)
def test_the_field_that_differs_is_named(kind: str, field: str, value: Any) -> None:
    doors = ports(3)
    who = [identity(rank, 3) if kind == "tls" else None for rank in range(2)]
    parties = 3 if field == "parties" else 2
    mine, other = hello(0), hello(1, **{field: value})
    if kind == "tls":
        who = [identity(0), identity(1, other.parties)]
    errors = together(
        party(mine, (doors[0][0], doors[0][1][:2]), who[0]),
        party(other, (doors[1][0], doors[1][1][:parties]), who[1]),
    )
    doors[2][0].close()
    for rank, error in enumerate(errors):
        assert isinstance(error, HandshakeMismatch)
        assert error.field == field
        assert error.party == 1 - rank
        assert field in str(error)


def test_another_version_is_named_on_both_sides() -> None:
    (listener, addresses), (other, _) = ports(2)
    answers = []

    def from_the_future() -> None:
        with socket.create_connection(addresses[0]) as sock:
            sock.sendall(HEADER.pack(MAGIC, 9, Kind.HELLO, 1, 0, bytes(16), 0, 0, 0, NO_DIGEST))
            answers.append(sock.recv(4096))

    error, _ = together(party(hello(0), (listener, addresses)), from_the_future)
    other.close()
    assert isinstance(error, HandshakeMismatch)
    assert (error.field, error.party) == ("version", 1)
    assert answers[0][:5] == MAGIC + bytes([VERSION])


def test_a_wrong_address_is_named() -> None:
    doors = ports(3)
    swapped = [doors[1][1][1], doors[1][1][0], doors[1][1][2]]
    clock = SharedClock()
    errors = together(
        party(hello(0, 3), doors[0], clock=clock),
        party(hello(1, 3), doors[1], clock=clock),
        then(party(hello(2, 3), (doors[2][0], swapped)), give_up(clock)),
    )
    assert isinstance(errors[2], HandshakeMismatch)
    assert errors[2].field == "rank"


def test_an_unknown_certificate_is_refused_by_both_sides(caplog: pytest.LogCaptureFixture) -> None:
    doors, clock = ports(2), SharedClock()
    errors = together(
        party(hello(0), doors[0], identity(0), clock=clock),
        party(hello(1), doors[1], identity(1, name="stranger")),
        give_up(clock, lambda: "is not pinned here" in caplog.text),
    )
    assert isinstance(errors[0], ConnectTimeout)
    assert "party 1" in str(errors[0])
    assert "is not pinned here" in str(errors[0])
    assert isinstance(errors[1], CertificateRejected)
    assert errors[1].party == 0


def test_a_stranger_is_told_at_once_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    doors = ports(2)
    stranger = listen("127.0.0.1", 0)

    told = threading.Event()

    def late() -> None:
        assert told.wait(LONG)
        party(hello(1), doors[1], identity(1))()

    def unknown() -> None:
        who = identity(1, name="stranger")
        with pytest.raises(CertificateRejected) as info:
            join(hello(1), (stranger, doors[0][1]), who)
        host, port = doors[0][1][0]
        assert f"party 0 ({host}:{port}): the other side does not accept" in str(info.value)
        assert info.value.party == 0
        told.set()

    together(party(hello(0), doors[0], identity(0)), late, unknown).values()
    [line] = [r.getMessage() for r in caplog.records if r.name == "tacit"]
    assert "party 0 refused a connection from 127.0.0.1" in line
    assert "not pinned here" in line


def test_an_expired_certificate_says_so(caplog: pytest.LogCaptureFixture) -> None:
    doors, clock = ports(2), SharedClock()
    now = datetime.datetime.now(datetime.UTC)
    own, key = certificate("party 1", until=now - datetime.timedelta(minutes=1))
    old = Identity(own, key, (certificate("party 0")[0], own))
    new = Identity(*certificate("party 0"), old.peers)
    errors = together(
        party(hello(0), doors[0], new, clock=clock),
        party(hello(1), doors[1], old),
        give_up(clock, lambda: "not valid now" in caplog.text),
    )
    assert "not valid now: certificate has expired; compare the clocks" in str(errors[0])
    assert isinstance(errors[1], CertificateRejected)
    assert "expired" in str(errors[1])


def test_an_impostor_at_a_peers_address_is_refused() -> None:
    doors, clock = ports(2), SharedClock()
    errors = together(
        party(hello(0), doors[0], identity(0, name="stranger"), clock=clock),
        then(party(hello(1), doors[1], identity(1)), give_up(clock)),
    )
    assert isinstance(errors[1], CertificateRejected)
    assert "is not pinned here" in str(errors[1])


def test_a_party_cannot_take_the_rank_of_another() -> None:
    doors, clock = ports(3), SharedClock()
    errors = together(
        party(hello(0, 3), doors[0], identity(0, 3), clock=clock),
        party(hello(1, 3), doors[1], identity(1, 3), clock=clock),
        then(party(hello(2, 3), doors[2], identity(2, 3, name="party 1")), give_up(clock)),
    )
    assert isinstance(errors[2], CertificateRejected)
    assert "belongs to another party" in str(errors[2])


def test_a_key_that_a_pinned_party_vouches_for_is_not_pinned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Party 1 signs a certificate for somebody else's key; nobody has pinned that key."""
    doors, clock = ports(2), SharedClock()
    delegate = Identity(*delegated("party 1"), identity(1).peers)
    errors = together(
        party(hello(0), doors[0], identity(0), clock=clock),
        party(hello(1), doors[1], delegate, clock=clock),
        give_up(clock, lambda: "not pinned here" in caplog.text),
    )
    assert isinstance(errors[0], ConnectTimeout)
    assert "not pinned here" in str(errors[0])
    assert isinstance(errors[1], TransportError)


def test_two_parties_with_one_key_are_refused() -> None:
    doors = ports(2)
    twin = Identity(*certificate("party 0"), (certificate("party 0")[0],) * 2)
    with pytest.raises(ConfigError, match="parties 0 and 1 have the same public key"):
        join(hello(0), doors[0], twin)
    doors[1][0].close()


@pytest.mark.parametrize(("stripe", "stripes"), [(1, 1), (3, 9), (3, 2), (255, 255)])
def test_a_stripe_that_the_pair_does_not_have_is_refused(stripe: int, stripes: int) -> None:
    """A party with two stripes hears of a third one, or of one from a party that has none."""
    (listener, addresses), (other, _) = ports(2)
    clock = SharedClock()
    other.close()

    answered = threading.Event()

    def stranger() -> int:
        with greeting(addresses[0], b"\1", stripe, stripes) as sock:
            verdict = sock.recv(4096)[-3]
        answered.set()
        return verdict

    error, verdict, _ = together(
        party(hello(0), (listener, addresses), clock=clock, limits=replace(LIMITS, stripes=2)),
        stranger,
        give_up(clock, answered.is_set),
    )
    assert verdict == Verdict.STRIPE
    assert isinstance(error, ConnectTimeout)


def test_a_second_process_under_one_rank_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    (listener, addresses), (other, _) = ports(2)
    clock = SharedClock()
    other.close()

    def twins() -> int:
        with greeting(addresses[0], b"\1"), greeting(addresses[0], b"\1") as second:
            return second.recv(4096)[-3]

    error, verdict, _ = together(
        party(hello(0), (listener, addresses), clock=clock),
        twins,
        give_up(clock, lambda: "another process is connected" in caplog.text),
    )
    assert verdict == Verdict.TAKEN
    assert isinstance(error, ConnectTimeout)
    assert "another process is connected under this rank" in str(error)


def test_a_taken_port_says_so() -> None:
    with listen("127.0.0.1", 0) as listener, pytest.raises(ConnectError, match="taken"):
        listen(*listener.address)


@pytest.mark.parametrize("kind", SOCKETS)
def test_a_missing_party_is_named(kind: str) -> None:
    doors, clock, attempts = ports(2), SharedClock(), [0]
    doors[0][0].close()

    def counted(*address: Any) -> socket.socket:
        attempts[0] += 1
        return dial(*address)

    who = identity(1) if kind == "tls" else None
    error, _ = together(
        party(hello(1), doors[1], who, clock=clock, dial=counted),
        give_up(clock, lambda: attempts[0] > 1),
    )
    assert isinstance(error, ConnectTimeout)
    assert error.party == 0
    assert "party 0 (127.0.0.1:" in str(error)
    assert f"after {LONG} s: Connection refused" in str(error)


@pytest.mark.parametrize("kind", SOCKETS)
def test_strangers_delay_nobody(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_HANDSHAKE_SECONDS", 10 * LONG)
    doors = ports(2)
    who = [identity(rank) if kind == "tls" else None for rank in range(2)]
    silent = [socket.create_connection(doors[0][0].address) for _ in range(50)]
    rubbish = [socket.create_connection(doors[0][0].address) for _ in range(5)]
    for sock in rubbish:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: somewhere.example.org\r\nAccept: */*\r\n\r\n")
    together(party(hello(0), doors[0], who[0]), party(hello(1), doors[1], who[1])).values()
    for sock in silent + rubbish:
        sock.close()


def test_a_failure_while_others_connect_ends_all() -> None:
    """0 and 1 disagree while 0 still waits for 2, which never comes."""
    doors = ports(3)
    doors[2][0].close()
    errors = together(party(hello(0, 3), doors[0]), party(hello(1, 3, session=bytes(16)), doors[1]))
    assert all(isinstance(error, HandshakeMismatch) for error in errors)


def test_no_identity_must_be_asked_for_and_warns() -> None:
    doors = ports(2)
    with pytest.raises(ConfigError, match="insecure_plain_tcp"):
        connect(hello(0), *doors[0], identity=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="insecure"):
            join(hello(1), doors[1])


@pytest.mark.parametrize("what", ["addresses", "certificates", "PEM"])
def test_an_inconsistent_setting_is_named(what: str) -> None:
    listener, addresses = ports(1)[0]
    broken = Identity(b"no", b"PEM", identity(0).peers)
    who = {"certificates": identity(0, 3), "PEM": broken}.get(what, identity(0))
    addresses = addresses * (3 if what == "addresses" else 2)
    with pytest.raises(ConfigError, match=what):
        join(hello(0), (listener, addresses), who)


TENSOR = pack(Kind.TENSORS, hello(0).session, 0, layout((Spec((1000,), torch.int64),)), 8000)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"rubbish " * 10, FrameRejected),
        (TENSOR[:-3], PeerClosed),
        (TENSOR + bytes(100), PeerClosed),
        (b"", PeerClosed),
    ],
    ids=["rubbish", "cut in the table", "cut in the tensor", "nothing"],
)
def test_a_party_that_stops_making_sense(data: bytes, error: type[Exception]) -> None:
    (listener, addresses), (other, _) = ports(2)

    connected, over = threading.Event(), threading.Event()

    def honest() -> None:
        try:
            with join(hello(0), (listener, addresses)) as mesh:
                connected.set()
                mesh.exchange({}, {1: [Spec((1000,), torch.int64)]})
        finally:
            over.set()

    def hostile() -> None:
        with greeting(addresses[0], b"\1") as outgoing, greeting(addresses[0], b"\0"):
            outgoing.sendall(data)
            assert connected.wait(LONG)
            if error is FrameRejected:  # this party's end is not what the other one notices
                assert over.wait(LONG)

    failure, _ = together(honest, hostile)
    other.close()
    assert isinstance(failure, error)
    assert failure.party == 1
    assert failure.operation == 0


@pytest.mark.parametrize("kind", SOCKETS)
@pytest.mark.parametrize("sending", [True, False])
def test_a_connection_that_is_cut_is_a_peer_that_closed(kind: str, sending: bool) -> None:
    def program(mesh: Mesh) -> None:
        mesh.exchange({1 - mesh.rank: [torch.tensor(1)]}, {1 - mesh.rank: ONE})
        if mesh.rank == 1:
            (channel,) = mesh._channels.values()
            channel.outgoing.cut()
            channel.incoming.cut()
        for _ in range(9):
            mesh.exchange({1 - mesh.rank: [torch.zeros(1 << 21)]} if sending else {}, {})
            mesh.flush()
        mesh.exchange({}, {1 - mesh.rank: ONE})

    for rank, error in enumerate(run(kind, program)):
        assert isinstance(error, PeerClosed)
        assert error.party == 1 - rank


def test_a_party_that_stops_in_the_middle_of_a_message_times_out() -> None:
    (listener, addresses), (other, _) = ports(2)
    other.close()
    over, clock, connected = threading.Event(), ManualClock(), threading.Event()

    def honest() -> None:
        try:
            with join(hello(0), (listener, addresses), clock=clock) as mesh:
                connected.set()
                mesh.exchange({}, {1: [Spec((1000,), torch.int64)]})
        finally:
            over.set()

    def frozen() -> None:
        with greeting(addresses[0], b"\1") as outgoing, greeting(addresses[0], b"\0"):
            outgoing.sendall(TENSOR + bytes(100))
            assert connected.wait(LONG)
            while not over.wait(0.05):
                clock.advance(LONG / 10)

    failure, _ = together(honest, frozen)
    assert isinstance(failure, PeerTimeout)
    assert failure.party == 1


def test_a_party_that_trickles_hides_nothing_and_times_out() -> None:
    """Party 1 sends a byte now and then; that is no progress."""
    (listener, addresses), (other, _) = ports(2)
    other.close()
    over, clock, connected = threading.Event(), ManualClock(), threading.Event()

    def honest() -> None:
        mesh = join(hello(0), (listener, addresses), clock=clock)
        connected.set()
        try:
            with pytest.raises(PeerTimeout), mesh:
                mesh.exchange({}, {1: [Spec((1000,), torch.int64)]})
        finally:
            over.set()

    def trickle() -> None:
        with greeting(addresses[0], b"\1") as outgoing, greeting(addresses[0], b"\0"):
            outgoing.sendall(TENSOR)
            assert connected.wait(LONG)
            with suppress(OSError):
                while not over.wait(0.02):
                    outgoing.send(b"x")
                    clock.advance(LONG / 25)

    together(honest, trickle).values()


@pytest.mark.parametrize("stripes", [1, 3])
@pytest.mark.parametrize("kind", SOCKETS)
def test_an_abort_is_heard_while_another_party_sends_without_end(kind: str, stripes: int) -> None:
    """What party 1 sends never arrives as a whole; party 2 fails at once."""

    def program(mesh: Mesh) -> None:
        big = Spec((1 << 20,), torch.int64)
        if mesh.rank == 2:
            raise KeyError
        if mesh.rank == 1:
            (channel,) = [c for c in mesh._channels.values() if c.peer == 0]
            for stream in (channel.outgoing, *(channel._out.streams if channel._out else ())):
                stream.write = partial(slowly, stream.write)
                stream.is_lent = lambda _: False  # to compiled code, which would be faster
            mesh.exchange({0: [torch.zeros(1 << 20, dtype=torch.int64)]}, {})
            mesh.flush()
        mesh.exchange({}, {1 - mesh.rank: [big]})

    def slowly(write: Any, parts: Any, **how: Any) -> int:
        time.sleep(0.01)
        return write([memoryview(parts[0])[:100]], **how)

    errors = run(kind, program, 3, limits=LIMITS, stripes=[stripes] * 3)
    assert isinstance(errors[0], PeerClosed)
    assert errors[0].party == 2


def test_rubbish_instead_of_a_last_word_does_not_keep_the_mesh_open() -> None:
    (listener, addresses), (other, _) = ports(2)
    other.close()
    meshes = []
    connected, over = threading.Event(), threading.Event()

    def honest() -> None:
        meshes.append(join(hello(0), (listener, addresses)))
        connected.set()
        try:
            meshes[0].exchange({}, {1: ONE})
        finally:
            over.set()

    def hostile() -> None:
        with greeting(addresses[0], b"\1"), greeting(addresses[0], b"\0") as incoming:
            assert connected.wait(LONG)
            incoming.sendall(b"rubbish" * 20)
            assert over.wait(LONG)

    error, _ = together(honest, hostile)
    assert isinstance(error, FrameRejected | PeerClosed)
    assert (error.party, error.operation) == (1, 0)
    with pytest.raises(PeerClosed, match="has failed"):
        meshes[0].flush()


@pytest.mark.parametrize("address", [("a..b", 1), ("x" * 64 + ".org", 1), ("127.0.0.1", 1 << 20)])
def test_an_address_that_cannot_be_is_named_at_once(address: tuple[str, int]) -> None:
    (own, addresses), (other, _) = ports(2)
    own.close()
    with pytest.raises(ConfigError, match="is not the address"):
        join(hello(1), (other, [address, addresses[1]]))


def test_another_party_is_not_blamed_for_settings_sent_under_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Party 2 says that it is party 1, of another session."""
    doors, clock = ports(3), SharedClock()
    errors = together(
        party(hello(0, 3), doors[0], identity(0, 3), clock=clock),
        party(hello(1, 3), doors[1], identity(1, 3), clock=clock),
        party(hello(1, 3, session=bytes(16)), doors[2], identity(1, 3, name="party 2")),
        give_up(clock, lambda: "belongs to another party" in caplog.text),
    )
    assert isinstance(errors[0], ConnectTimeout)
    assert "belongs to another party" in str(errors[0])


def test_tls_is_1_3_only() -> None:
    listener, addresses = ports(1)[0]

    def old() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(addresses[0]) as sock, context.wrap_socket(sock):
            pass

    clock = SharedClock()
    error, refused = together(
        party(hello(0), (listener, addresses * 2), identity(0), clock=clock),
        then(old, give_up(clock)),
    )
    assert isinstance(error, ConnectTimeout)
    assert isinstance(refused, ssl.SSLError)
