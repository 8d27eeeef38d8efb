"""Large messages over several connections: the same messages, and strict with every stripe."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.links import SESSION, victim
from tests.tiers import draws
from tests.transport.parties import SOCKETS, connected, run, together
from tests.transport.test_tiles import tiled, values

from tacit.errors import ConfigError, FrameRejected, PeerClosed, PeerTimeout
from tacit.transport import Limits, Mesh, Spec, root_cause
from tacit.transport.wire import stripes as wire_stripes
from tacit.transport.wire import tls
from tacit.transport.wire.frames import NO_DIGEST, Kind, layout, pack, pack_striped
from tacit.transport.wire.socket_channel import SocketChannel
from tacit.transport.wire.stripes import common_stripes, num_slices, slices, views_between

EACH = pytest.mark.parametrize("kind", SOCKETS)
SLICE = 1 << 14


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_stripes, "SLICE_BYTES", SLICE)


@pytest.fixture
def _short_goodbyes(_answers_are_waited_for: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer whose stripe is lost says no last word: it is not waited for long."""
    monkeypatch.setattr(root_cause, "_LAST_WORD_SECONDS", 0.5)


# Cutting ------------------------------------------------------------------------------------------


@draws(200)
@given(st.integers(0, 1 << 40), st.integers(1, 32))
def test_slices_follow_one_another_without_gaps(size: int, count: int) -> None:
    found = list(slices(size, count))
    assert (found[0][0], found[-1][1], len(found)) == (0, size, count)
    assert all(a[1] == b[0] for a, b in pairwise(found))
    assert all(size // count <= end - start <= size // count + 1 for start, end in found)


@draws(100)
@given(st.lists(st.binary(max_size=20), max_size=5), st.data())
def test_views_between_are_the_bytes_between(pieces: list[bytes], data: st.DataObject) -> None:
    joined = b"".join(pieces)
    start = data.draw(st.integers(0, len(joined)))
    end = data.draw(st.integers(start, len(joined)))
    found = views_between([memoryview(piece) for piece in pieces], start, end)
    assert b"".join(found) == joined[start:end]


def test_few_bytes_stay_in_one_piece() -> None:
    assert [num_slices(n * SLICE, 4) for n in (0, 1, 2, 3, 4, 9)] == [0, 0, 2, 3, 4, 4]
    assert [num_slices(9 * SLICE, n) for n in (0, 1, 2)] == [0, 0, 2]
    assert [common_stripes(*both) for both in ((1, 8), (0, 3), (4, 2), (3, 3))] == [0, 0, 2, 3]


@pytest.mark.parametrize("stripes", [0, -1, 33, 2.0, True, "4"])
def test_a_number_of_stripes_that_cannot_be(stripes: object) -> None:
    with pytest.raises(ConfigError, match="stripes"):
        Limits(stripes=stripes)  # type: ignore[arg-type]


# Exchanges ----------------------------------------------------------------------------------------

SIZES = [1, 3 * SLICE // 8, 5, SLICE, 40_001, 200_003, 2, 2 * SLICE // 8, 100_000]


def circle(mesh: Mesh) -> int:
    """Sends tensors of many sizes to the next party; returns how many bytes came over stripes."""
    after, before = (mesh.rank + 1) % mesh.parties, (mesh.rank - 1) % mesh.parties
    for size in SIZES:
        specs = [Spec((3,), torch.uint8), Spec((size,), torch.int64), Spec((2, 0), torch.bool)]
        sent = [_tensor(spec, mesh.rank) for spec in specs]
        got = mesh.exchange({after: sent}, {before: specs})[before]
        assert all(x.equal(_tensor(spec, before)) for x, spec in zip(got, specs, strict=True))
    channel = mesh.channel(before)
    assert isinstance(channel, SocketChannel)
    return channel._in.moved if channel._in else 0


def _tensor(spec: Spec, rank: int) -> torch.Tensor:
    count = torch.Size(spec.shape).numel()
    return (torch.arange(count) * 1_000_003 + rank).to(spec.dtype).view(spec.shape)


@EACH
@pytest.mark.parametrize("stripes", [(2, 2, 2), (5, 3, 3), (1, 4, 4)])
def test_every_message_arrives_as_it_was_sent(kind: str, stripes: tuple[int, ...]) -> None:
    """Parties that would have different numbers of stripes use as many as both have."""
    moved = run(kind, circle, parties=3, stripes=stripes).values()
    striped = sum(8 * size + 3 for size in SIZES if 8 * size + 3 >= 2 * SLICE)
    for rank, count in enumerate(moved):
        num = common_stripes(stripes[rank], stripes[rank - 1])
        assert (count > striped) == (num > 0)
        assert count <= striped + len(SIZES) * num * wire_stripes._HEAD.size


def test_more_stripes_than_are_dialled_at_once() -> None:
    assert min(run("tls", circle, parties=3, stripes=(11, 11, 11)).values()) > 0


@EACH
@pytest.mark.parametrize("size", [5, 100, SLICE, 5 * SLICE])
def test_a_message_is_read_into_memory_that_is_given(kind: str, size: int) -> None:
    def main(mesh: Mesh) -> None:
        peer, specs = 1 - mesh.rank, [Spec((3,), torch.uint8), Spec((size,), torch.int64)]
        places = [torch.empty(spec.shape, dtype=spec.dtype) for spec in specs]
        sent = {peer: [_tensor(spec, mesh.rank) for spec in specs]}
        got = mesh.finish(mesh.begin(sent, {peer: specs}, into={peer: places}))[peer]
        for place, tensor, spec in zip(places, got, specs, strict=True):
            assert place.data_ptr() == tensor.data_ptr()
            assert place.equal(_tensor(spec, peer))

    run(kind, main, stripes=(3, 3))


@EACH
def test_every_stripe_carries_its_part(kind: str) -> None:
    def main(mesh: Mesh) -> list[int]:
        circle(mesh)
        channel = mesh.channel(1 - mesh.rank)
        assert isinstance(channel, SocketChannel)
        assert channel._out
        assert channel._in
        return [*channel._out.moved_by_each(), *channel._in.moved_by_each()]

    for moved in run(kind, main, stripes=(3, 3)).values():
        assert len(moved) == 6
        assert max(moved) < 2 * min(moved)


@EACH
def test_tiles_over_stripes(kind: str) -> None:
    """Parts of a message that are large are striped, others are not."""

    def main(mesh: Mesh) -> bool:
        peer, got = 1 - mesh.rank, []
        for tile in (1, 3, 30):
            x = tiled(mesh.rank, 61, tile)
            (y,) = mesh.exchange({peer: [x]}, {peer: [Spec((61, 1 << 12), torch.int64)]})[peer]
            got.append(y.equal(values(peer, 61)))
        return all(got)

    assert all(run(kind, main, stripes=(4, 4)).values())


def test_stripes_are_renewed_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "RENEW_BYTES", 70_001)

    def main(mesh: Mesh) -> int:
        circle(mesh)
        channel = mesh.channel(1 - mesh.rank)
        assert isinstance(channel, SocketChannel)
        assert channel._in
        return min(stream.renewals for stream in channel._in.streams)  # type: ignore[attr-defined]

    assert min(run("tls", main, stripes=(2, 2)).values()) > 5


@EACH
def test_a_party_that_ends_first_leaves_nothing_behind(kind: str) -> None:
    """The last message is still on its way over the stripes when its sender closes."""
    taken = threading.Event()

    def main(mesh: Mesh) -> bool:
        if mesh.rank == 0:
            mesh.exchange({1: [torch.arange(1 << 20)]}, {})
            taken.set()
            return True
        taken.wait(20)
        return mesh.exchange({}, {0: [Spec((1 << 20,), torch.int64)]})[0][0].equal(
            torch.arange(1 << 20)
        )

    assert all(run(kind, main, stripes=(3, 3)).values())


# Failures -----------------------------------------------------------------------------------------

WANTED = layout((Spec((5 * SLICE,), torch.uint8),))
BODY = bytes(range(256)) * (WANTED.size // 256)
NUM_STRIPES = 2


def heads(count: int = NUM_STRIPES, size: int = WANTED.size) -> bytes:
    begin = pack(Kind.TENSORS, SESSION, 0, WANTED, 0)
    return begin + pack_striped(SESSION, 0, count, size, 0, NO_DIGEST)


def sliced(index: int, /, **changes: object) -> bytes:
    """What a stripe brings of the message, with other fields in its head."""
    start, end = list(slices(WANTED.size, NUM_STRIPES))[index]
    fields: dict[str, object] = {
        "magic": b"TCIT",
        "version": wire_stripes.VERSION,
        "kind": Kind.STRIPED,
        "index": index,
        "session": SESSION,
        "number": 0,
        "start": start,
        "end": end,
    }
    return wire_stripes._HEAD.pack(*(fields | changes).values()) + BODY[start:end]


def receive(mesh: Mesh) -> torch.Tensor:
    return mesh.exchange({}, {1: WANTED.specs})[1][0]


def said(mesh: Mesh, socks: list[socket.socket], *data: bytes) -> torch.Tensor:
    """What party 0 receives if the connections bring this; an end follows nothing at all."""

    def speak(sock: socket.socket, text: bytes) -> None:
        with contextlib.suppress(OSError):
            sock.sendall(text)

    threads = [threading.Thread(target=speak, args=one) for one in zip(socks, data, strict=True)]
    for thread in threads:
        thread.start()
    try:
        return receive(mesh)
    finally:
        mesh.abort("over")  # lets those end that still speak
        for thread in threads:
            thread.join()


def test_what_the_tests_below_change_is_a_message() -> None:
    with victim(NUM_STRIPES) as (mesh, socks, _):
        assert said(mesh, socks, heads(), sliced(0), sliced(1)).numpy().tobytes() == BODY


@pytest.mark.parametrize(
    "changes",
    [
        {"magic": b"TCIX"},
        {"version": 5},
        {"kind": Kind.PART},
        {"index": 0},
        {"session": bytes(16)},
        {"number": 1},
        {"start": 0},
        {"start": WANTED.size},
        {"end": WANTED.size + 1},
        {"end": (1 << 64) - 1},
        {"start": (1 << 64) - 1},
    ],
    ids=str,
)
def test_a_slice_with_another_head_is_refused(changes: dict[str, object]) -> None:
    with (
        victim(NUM_STRIPES) as (mesh, socks, _),
        pytest.raises(FrameRejected, match=r"party 1.*announced"),
    ):
        said(mesh, socks, heads(), sliced(0), sliced(1, **changes))


def test_a_slice_with_any_byte_of_its_head_changed_is_refused() -> None:
    good, random = sliced(1), Random(7)
    for at in range(0, wire_stripes._HEAD.size, 3):
        changed = bytes([good[at] ^ random.randrange(1, 256)])
        with (
            victim(NUM_STRIPES) as (mesh, socks, _),
            pytest.raises(FrameRejected, match="announced"),
        ):
            said(mesh, socks, heads(), sliced(0), good[:at] + changed + good[at + 1 :])


@pytest.mark.parametrize(
    "head",
    [heads(count) for count in (0, 3, 65535)]
    + [heads(size=size) for size in (0, 1, WANTED.size - 1, WANTED.size + 1, (1 << 64) - 1)],
)
def test_a_part_that_cannot_be_is_refused(head: bytes) -> None:
    if head == heads(size=WANTED.size - 1):
        head += pack(Kind.PART, SESSION, 0, layout(()), 2)  # one byte too many
    with victim(NUM_STRIPES) as (mesh, socks, _), pytest.raises(FrameRejected, match="party 1"):
        said(mesh, socks, head, sliced(0), sliced(1))


def test_a_party_without_stripes_refuses_a_striped_part() -> None:
    def main(mesh: Mesh) -> None:
        if mesh.rank == 1:
            receive_from = {0: WANTED.specs}
            mesh.exchange({}, receive_from)
        mesh.channel(1).outgoing.write((heads(),))  # type: ignore[attr-defined]
        mesh.exchange({}, {1: [Spec((1,), torch.int64)]})

    assert isinstance(run("tcp", main, stripes=(1, 1))[1], FrameRejected)


@pytest.mark.usefixtures("_short_goodbyes")
@pytest.mark.parametrize("cut", [0, 10, 100, SLICE])
def test_a_stripe_that_ends_within_a_slice(cut: int) -> None:
    with victim(NUM_STRIPES) as (mesh, socks, _):
        socks[2].sendall(sliced(1)[:cut])
        socks[2].shutdown(socket.SHUT_WR)
        with pytest.raises(PeerClosed, match="party 1"):
            said(mesh, socks, heads(), sliced(0), b"")


def test_a_stripe_on_which_nothing_comes() -> None:
    limits = Limits(deadline=1.0, patience=1.0)
    is_noticed = pytest.raises(PeerTimeout, match="party 1")
    with victim(NUM_STRIPES, limits) as (mesh, socks, _), is_noticed:
        said(mesh, socks, heads(), sliced(0), sliced(1)[:-1])


@EACH
@pytest.mark.usefixtures("_short_goodbyes")
@pytest.mark.parametrize("way", ["_out", "_in"])
def test_a_stripe_that_is_cut_ends_the_run_at_both(kind: str, way: str) -> None:
    """In the middle of a long message, by whoever is between the two."""

    def main(mesh: Mesh) -> None:
        channel = mesh.channel(1 - mesh.rank)
        assert isinstance(channel, SocketChannel)
        send, receive = {}, {}
        if mesh.rank == 0:
            send = {1: [torch.zeros(1 << 22, dtype=torch.int64)]}
            if way == "_out":
                getattr(channel, way).streams[1].cut()
        else:
            receive = {0: [Spec((1 << 22,), torch.int64)]}
            if way == "_in":
                getattr(channel, way).streams[1].cut()
        mesh.exchange(send, receive)
        mesh.exchange({}, {1 - mesh.rank: [Spec((1,), torch.int64)]})

    for error in run(kind, main, stripes=(3, 3)):
        assert isinstance(error, PeerClosed)


def test_bytes_that_nobody_asked_for_are_not_taken_for_the_next_slice() -> None:
    """A stripe with more bytes than its slice: the next part finds another head there."""
    again = pack(Kind.TENSORS, SESSION, 1, WANTED, 0) + pack_striped(
        SESSION, 1, NUM_STRIPES, WANTED.size, 0, NO_DIGEST
    )
    with victim(NUM_STRIPES) as (mesh, socks, _):
        speak = threading.Thread(target=lambda: socks[2].sendall(sliced(1) + b"x" + sliced(1)))
        speak.start()
        socks[1].sendall(sliced(0) + sliced(0, number=1))
        socks[0].sendall(heads() + again)
        assert receive(mesh).numpy().tobytes() == BODY
        with pytest.raises(FrameRejected, match="announced"):
            receive(mesh)
        speak.join()


def test_a_peer_that_resets_a_stripe_reads_nothing_of_later_memory_on_another() -> None:
    """What it was sent may be freed then, and the next tensor there is none of its business."""
    size, later = 1 << 26, 0xEE
    memory = bytearray(size)
    with victim(NUM_STRIPES, Limits(deadline=5.0, max_queued_bytes=2 * size)) as (mesh, _, taken):
        sent = torch.frombuffer(memory, dtype=torch.uint8)
        weakref.finalize(sent, lambda: memory.__setitem__(slice(None), bytes([later]) * size))
        opened = mesh.begin({1: [sent]}, {})
        del sent, opened
        sender = mesh.channel(1)._sender  # type: ignore[attr-defined]
        taken[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        taken[1].close()
        until = time.monotonic() + 20.0
        while sender.failure is None and time.monotonic() < until:
            time.sleep(0.01)
        assert isinstance(sender.failure, PeerClosed)
        taken[2].settimeout(1.0)
        found = 0
        with contextlib.suppress(TimeoutError):
            while data := taken[2].recv(1 << 20):
                found += data.count(later)
        assert found == 0


def test_two_peers_at_once() -> None:
    """A party that waits for two large messages notices the end of each."""
    size = 1 << 19

    def main(mesh: Mesh) -> bool:
        others = [rank for rank in range(3) if rank != mesh.rank]
        for turn in range(5):
            sent = torch.arange(size) + mesh.rank * turn
            specs = [Spec((size,), torch.int64)]
            got = mesh.exchange({p: [sent] for p in others}, dict.fromkeys(others, specs))
            assert all(got[p][0].equal(torch.arange(size) + p * turn) for p in others)
        return True

    assert all(run("tls", main, parties=3, stripes=(2, 2, 2)).values())


def test_a_channel_that_is_released_twice_closes_nothing_of_others() -> None:
    with victim(NUM_STRIPES) as (mesh, *_):
        channel = mesh.channel(1)
        channel.release()
        with ExitStack() as stack:
            others = [stack.enter_context(socket.socket()) for _ in range(12)]
            channel.release()
            assert all(other.fileno() >= 0 and os.fstat(other.fileno()) for other in others)


def test_meshes_that_end_without_a_large_message() -> None:
    meshes = connected("tls", 2, stripes=(4, 4))
    ends: list[Callable[[], None]] = [mesh.close for mesh in meshes]
    assert together(*ends) == [None, None]
