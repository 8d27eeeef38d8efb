"""Relayed connections carry meshes unchanged; a host that meddles ends them with a typed error."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import closing, suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.enclave.relays import LOOPBACK, enclave_mesh, outside_mesh, relayed
from tests.tiers import draws

from tacit.enclave.edl import (
    RULES,
    STATUS_FIELDS,
    WITHOUT_NUMBER,
    Frame,
    Kind,
    Link,
    Side,
    pack_status,
    unpack_status,
)
from tacit.enclave.streams import WINDOW, Stream
from tacit.enclave.trusted.host_link import HostLink
from tacit.errors import FrameRejected, PeerClosed, TransportError
from tacit.transport import Limits, listen

LARGE = 3 * WINDOW // 8 + 5  # words: more than the window
QUICK = Limits(deadline=4.0, connect_deadline=4.0)


def conversation(mesh, rounds=3, size=LARGE):
    """Both sides send and check; returns what the last round received."""
    peer = 1 - mesh.rank
    with mesh:
        for turn in range(rounds):
            sent = torch.arange(size, dtype=torch.int64) + 100 * mesh.rank + turn
            spec = ((size,), torch.int64)
            [got] = mesh.exchange({peer: [sent]}, {peer: [spec]})[peer]
            assert torch.equal(got, torch.arange(size, dtype=torch.int64) + 100 * peer + turn)
    return True


def run_both(relay, host, *, enclave_rank, **options):
    """An enclave without a network and one outside, as threads; each result is True or an error."""
    if enclave_rank == 0:
        addresses = [relay.listen(LOOPBACK, name="main"), (LOOPBACK, 1)]
        parts = (
            lambda: conversation(enclave_mesh(host, 0, addresses, **options)),
            lambda: conversation(outside_mesh(1, addresses, **options)),
        )
    else:
        listener = listen(LOOPBACK, 0)
        addresses = [listener.address, (LOOPBACK, 1)]
        relay.allow_dialling([listener.address])
        parts = (
            lambda: conversation(outside_mesh(0, addresses, listener=listener, **options)),
            lambda: conversation(enclave_mesh(host, 1, addresses, **options)),
        )
    return outcomes(*parts)


def outcomes(*parts):
    """What functions in threads of their own return or raise, by position."""
    results = {}

    def run(number):
        try:
            results[number] = parts[number]()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


@pytest.mark.parametrize("enclave_rank", [0, 1])
def test_a_mesh_over_a_relay(enclave_rank):
    """The enclave accepts (rank 0) or dials (rank 1), and has no network."""
    with relayed() as (relay, host, _):
        assert run_both(relay, host, enclave_rank=enclave_rank) == {0: True, 1: True}
        counts = relay.status()
    assert counts["streams_opened"] == 2
    assert counts["bytes_to_host"] > 3 * 8 * LARGE
    assert counts["bytes_from_host"] > 3 * 8 * LARGE


def test_what_the_host_sees_is_not_what_is_sent():
    seen = []

    def watch(_, data):
        seen.append(data)
        return [data]

    with relayed(watch) as (relay, host, _):
        run_both(relay, host, enclave_rank=0)
    passed = b"".join(seen)
    assert len(passed) > 8 * LARGE
    row = torch.arange(100, 400, dtype=torch.int64).numpy().tobytes()
    assert row[:64] not in passed


def drop(number, data):
    return [] if number == 12 else [data]


def replay(number, data):
    return [data, data] if number == 12 else [data]


def change(number, data):
    return [data[:-1] + bytes([data[-1] ^ 1])] if number == 12 else [data]


def cut(number, data):
    return [data[: len(data) // 2]] if number == 12 and len(data) > 1 else [data]


class Reorder:
    def __init__(self):
        self.kept = None

    def __call__(self, number, data):
        if number == 12:
            self.kept = data
            return []
        kept, self.kept = self.kept, None
        return [data] if kept is None else [data, kept]


@pytest.mark.parametrize("cheat", [drop, replay, change, cut, Reorder()], ids=lambda c: str(c)[:16])
def test_a_host_that_meddles_is_noticed(cheat):
    with relayed(cheat) as (relay, host, _):
        results = run_both(relay, host, enclave_rank=0, limits=QUICK)
    assert all(isinstance(one, TransportError) for one in results.values()), results


def test_a_host_that_meddles_with_the_first_bytes_is_noticed():
    with relayed(lambda number, data: [data[::-1]]) as (relay, host, _):
        results = run_both(relay, host, enclave_rank=0, limits=QUICK)
    assert all(isinstance(one, TransportError) for one in results.values()), results


def test_a_host_that_ends_is_noticed():
    with relayed() as (relay, host, _):
        addresses = [relay.listen(LOOPBACK, name="main"), (LOOPBACK, 1)]

        def enclave():
            with enclave_mesh(host, 0, addresses, limits=QUICK) as mesh:
                mesh.exchange_bytes({}, [1])

        def owner():
            with outside_mesh(1, addresses, limits=QUICK) as mesh:
                relay.close()
                mesh.exchange_bytes({}, [0])

        results = outcomes(enclave, owner)
    assert all(isinstance(one, PeerClosed) for one in results.values()), results


def test_only_listed_addresses_are_dialled():
    with relayed() as (relay, host, _), listen(LOOPBACK, 0) as listener:
        sock = host.dial(listener.address, 5.0)
        assert sock.recv(1) == b""
        sock.close()
        assert listener.accept(0.2) is None
        relay.allow_dialling([listener.address])
        sock = host.dial(listener.address, 5.0)
        there, _ = listener.accept(5.0)
        sock.sendall(b"abc")
        assert there.recv(3) == b"abc"
        sock.close()
        there.settimeout(5)
        assert there.recv(1) == b""
        there.close()


def test_connections_go_to_the_port_they_were_made_to():
    with relayed() as (relay, host, _):
        addresses = {name: relay.listen(LOOPBACK, name=name) for name in ("owners", "workers")}
        listeners = {name: host.listen(name) for name in addresses}
        for name, address in addresses.items():
            with socket.create_connection(address, timeout=10) as sock:
                sock.sendall(name.encode())
                near, _ = listeners[name].accept(10)
                assert near.recv(7) == name.encode()[:7]
                near.close()
        listeners["owners"].close()
        unknown = relay.listen(LOOPBACK, name="unknown")
        for address in (addresses["owners"], unknown):
            with socket.create_connection(address, timeout=10) as sock:
                sock.sendall(b"x")
                assert sock.recv(1) == b""


def test_a_stream_that_nobody_reads_stops_no_other():
    with relayed() as (relay, host, _), listen(LOOPBACK, 0) as listener:
        relay.allow_dialling([listener.address])
        stuck, quick = (host.dial(listener.address, 5.0) for _ in range(2))
        ends = [listener.accept(5.0)[0] for _ in range(2)]
        stuck.settimeout(0.5)
        sent = 0
        with suppress(TimeoutError):
            while sent < 100 * WINDOW:
                sent += stuck.send(bytes(1 << 16))
        assert WINDOW <= sent < 100 * WINDOW
        quick.sendall(b"hello")
        for end in ends:
            end.settimeout(5)
        passed = [end.recv(5, socket.MSG_PEEK) for end in ends]
        assert b"hello" in passed
        for sock in (stuck, quick, *ends):
            sock.close()


@draws(20)
@given(st.lists(st.integers(1, 300_000), max_size=5), st.booleans())
def test_bytes_arrive_in_order_and_the_end_after_them(sizes, from_enclave):
    with relayed() as (relay, host, _), listen(LOOPBACK, 0) as listener:
        relay.allow_dialling([listener.address])
        near = host.dial(listener.address, 5.0)
        near.settimeout(30)
        far, _ = listener.accept(5.0)
        far.setblocking(True)
        source, sink = (near, far) if from_enclave else (far, near)
        data = [bytes([i + 1]) * size for i, size in enumerate(sizes)]

        def send():
            for part in data:
                source.sendall(part)
            source.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=send)
        thread.start()
        got = bytearray()
        while part := sink.recv(1 << 16):
            got += part
        thread.join()
        assert got == b"".join(data)
        sink.sendall(b"back")  # the other direction is still open
        assert source.recv(4) == b"back"
        near.close()
        far.close()


def test_an_unread_connection_is_closed_without_a_reset():
    """What an enclave sent last arrives, although it closes while its peer still sends."""
    with relayed() as (relay, host, _), listen(LOOPBACK, 0) as listener:
        relay.allow_dialling([listener.address])
        near = host.dial(listener.address, 5.0)
        far, _ = listener.accept(5.0)
        far.settimeout(10)
        near.sendall(b"x" * 100_000)
        near.close()
        for _ in range(20):
            far.sendall(b"heartbeat")
            time.sleep(0.01)
        with far:
            got = b""
            while part := far.recv(1 << 16):
                got += part
        assert (len(got), set(got)) == (100_000, {ord("x")})


def test_what_an_enclave_sent_before_it_died_arrives():
    """Its peer still sends then: the host reads that, because a reset would lose the rest."""
    with relayed() as (relay, host, _), listen(LOOPBACK, 0) as listener:
        relay.allow_dialling([listener.address])
        near = host.dial(listener.address, 5.0)
        far, _ = listener.accept(5.0)
        far.settimeout(60)
        near.sendall(b"x" * 100_000)
        while host._streams.counts()["sent"] < 100_000:
            time.sleep(0.001)
        host._link.close()
        relay.ended.result(10)
        for _ in range(20):
            far.sendall(b"heartbeat")
            time.sleep(0.01)
        with far:
            got = b""
            while part := far.recv(1 << 16):
                got += part
        assert (len(got), set(got)) == (100_000, {ord("x")})
        near.close()


def test_quotes_and_status_pass():
    with relayed(quoter=lambda nonce: b"quote for " + nonce) as (relay, host, _):
        host.count_with(lambda: {"plaintext_peak": 7, "chunks_evicted": 3, "weights": 5})
        nonce = bytes(range(32))
        assert relay.quote(nonce) == b"quote for " + nonce
        counts = relay.status()
        assert tuple(counts) == STATUS_FIELDS
        assert (counts["plaintext_peak"], counts["chunks_evicted"]) == (7, 3)
    with pytest.raises(PeerClosed):
        relay.quote(nonce)


# The messages ------------------------------------------------------------------------------------


def test_the_set_of_messages_is_closed():
    """Adding a message is a decision about security: this list has to change with it."""
    assert {kind.name for kind in Kind} == {
        *("START", "READY", "OPEN", "BYTES", "CREDIT", "END", "RESET"),
        *("QUOTE", "STATUS", "STOP", "ENDED", "DATA"),
    }
    sent = {side: {kind.name for one, kind in RULES if one is side} for side in Side}
    both = {"OPEN", "BYTES", "CREDIT", "END", "RESET", "QUOTE", "STATUS"}
    assert sent[Side.HOST] == both | {"START", "DATA", "STOP"}
    assert sent[Side.ENCLAVE] == both | {"READY", "ENDED"}
    assert list(STATUS_FIELDS) == [
        *("streams_opened", "bytes_from_host", "bytes_to_host"),
        *("plaintext_resident", "plaintext_peak", "chunks_evicted"),
    ]
    assert RULES[Side.ENCLAVE, Kind.STATUS] == (8 * len(STATUS_FIELDS),) * 2
    assert RULES[Side.ENCLAVE, Kind.ENDED][1] <= 200


def test_status_takes_no_other_names():
    assert unpack_status(pack_status({"weights": 5, "plaintext_peak": 2}))["plaintext_peak"] == 2
    assert sum(unpack_status(pack_status({"weights": 5})).values()) == 0


@draws(300)
@given(
    sender=st.sampled_from(list(Side)),
    kind=st.integers(0, 255),
    number=st.sampled_from([0, 1, 2, 2**32 - 1]),
    size=st.sampled_from([0, 1, 4, 31, 32, 33, 48, 200, 201, 1 << 18, (1 << 18) + 1, 2**32 - 1]),
)
def test_only_messages_that_the_rules_allow_are_taken(sender, kind, number, size):
    near, far = socket.socketpair()
    receiver = Side.ENCLAVE if sender is Side.HOST else Side.HOST
    known = {int(k): k for k in Kind}
    least, most = RULES.get((sender, known.get(kind)), (1, 0))
    allowed = least <= size <= most and bool(number) is not (known.get(kind) in WITHOUT_NUMBER)
    with near, far:
        near.sendall(struct.pack("<BII", kind, number, size))
        thread = threading.Thread(target=_fill, args=(near, size if allowed else 0))
        thread.start()
        link = Link(far, receiver)
        if allowed:
            frame = link.receive()
            assert (frame.kind, frame.number, len(frame.body)) == (kind, number, size)
        else:
            with pytest.raises(FrameRejected):
                link.receive()
        thread.join()


def _fill(sock, size):
    sock.sendall(bytes(size))


def host_breaks(*frames):
    """Whether an enclave ends once its host sends these messages, in raw form."""
    near, far = socket.socketpair()
    ended = threading.Event()
    host = HostLink(Link(far, Side.ENCLAVE), bytes, end=ended.set)
    with near, far, closing(host.listen("x")):
        near.settimeout(1)
        for kind, number, body in frames:
            if not ended.is_set():
                with suppress(TimeoutError):  # it reads nothing more
                    near.sendall(struct.pack("<BII", kind, number, len(body)) + body)
        return ended.wait(10)


@pytest.mark.parametrize(
    "frame",
    [
        (Kind.OPEN, 1, b"x"),  # an enclave's number
        (Kind.STOP, 1, b""),
        (Kind.READY, 0, b"\0"),
        (Kind.QUOTE, 2, b"short"),
        (99, 0, b""),
    ],
    ids=lambda frame: str(int(frame[0])),
)
def test_an_enclave_ends_when_its_host_breaks_the_rules(frame):
    assert host_breaks(frame)


def test_streams_have_rules_too():
    opened, piece = (Kind.OPEN, 2, b"x"), (Kind.BYTES, 2, bytes(1 << 18))
    credit = (Kind.CREDIT, 2, struct.pack("<I", 1))
    assert host_breaks(opened, opened)
    assert host_breaks(opened, *[piece] * (2 * WINDOW // (1 << 18)))  # beyond the window
    assert host_breaks(opened, (Kind.END, 2, b""), piece)
    assert host_breaks(opened, credit)  # for bytes that were not sent


class _NoLink:
    def send(self, *_: object) -> None: ...


class _SentFrames:
    def __init__(self) -> None:
        self.sent: list[tuple[Kind, bytes]] = []

    def send(self, kind: Kind, number: int, body: bytes = b"") -> None:
        self.sent.append((kind, bytes(body)))


@pytest.mark.parametrize("end", [Kind.END, Kind.RESET])
def test_bytes_after_the_end_of_a_stream_are_refused(end) -> None:
    stream = Stream(_NoLink(), 2)
    stream.take(Frame(Kind.BYTES, 2, bytearray(5)))
    stream.take(Frame(end, 2, bytearray()))
    with pytest.raises(FrameRejected, match="after its end"):
        stream.take(Frame(Kind.BYTES, 2, bytearray(7)))
    assert stream.received == 5


class _Script(socket.socket):
    """A socket that gives its pieces only after a write to it has failed."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces = [b"first", b"second", b""]
        self._failed = threading.Event()

    def recv_into(self, buffer) -> int:
        self._failed.wait(10)
        piece = self._pieces.pop(0)
        buffer[: len(piece)] = piece
        return len(piece)

    def sendall(self, data) -> None:
        raise BrokenPipeError

    def shutdown(self, how) -> None:
        self._failed.set()


def test_what_a_socket_still_gives_is_sent_before_its_stream_is_given_up() -> None:
    """Nothing follows a RESET, so what the socket gave must precede it."""
    link = _SentFrames()
    stream = Stream(link, 2)
    stream.take(Frame(Kind.BYTES, 2, bytearray(5)))
    stream.join(_Script())
    stream.take(Frame(Kind.END, 2, bytearray()))
    assert stream.ended.wait(10)
    kinds = [(kind, body) for kind, body in link.sent if kind is not Kind.CREDIT]
    assert kinds == [(Kind.BYTES, b"first"), (Kind.BYTES, b"second"), (Kind.RESET, b"")]
