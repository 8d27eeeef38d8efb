"""Tensors that are computed while they are sent: one message, whatever its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from tests.fuzz.links import SESSION, listen_to
from tests.transport.parties import KINDS, SOCKETS, connected, run, together
from torch import Tensor

from tacit.errors import Error, FrameRejected, PeerClosed, PublicMismatch
from tacit.testing.clock import until
from tacit.transport import Limits, Mesh, Spec, Tiled
from tacit.transport.channel import PROGRESS_BYTES
from tacit.transport.stats import Cost
from tacit.transport.wire.frames import NO_DIGEST, Kind, layout, pack

EACH = pytest.mark.parametrize("kind", KINDS)
ROW = 1 << 12  # int64, so that a row is two times PROGRESS_BYTES
SHORT = Spec((5,), torch.int32)


def spec(rows: int, row: int = ROW) -> Spec:
    return Spec((rows, row), torch.int64)


def values(rank: int, rows: int, row: int = ROW) -> Tensor:
    return torch.arange(rows * row).view(rows, row) * (rank + 1) - 7


def tiled(
    rank: int,
    rows: int,
    tile: int = 1,
    row: int = ROW,
    before: Callable[[int], None] = lambda start: None,
) -> Tiled:
    """The values of a party, in tiles of so many rows; `before` is called before each."""
    whole = torch.full((rows, row), -1)

    def computing() -> Iterator[int]:
        for start in range(0, rows, tile):
            before(start)
            end = min(start + tile, rows)
            whole[start:end] = values(rank, rows, row)[start:end]
            yield end

    return Tiled(whole, computing())


@EACH
@pytest.mark.parametrize(("rows", "tile"), [(1, 1), (2, 1), (7, 3), (40, 1), (300, 128)])
def test_a_message_in_tiles_is_that_of_the_whole(kind, rows, tile):
    """With other tensors around it, whose bytes are those of no whole part; and at equal cost."""
    around = [torch.arange(5, dtype=torch.int32), torch.tensor([True, False, True])]
    specs = [SHORT, spec(rows), Spec((3,), torch.bool), spec(2), Spec((0, 3), torch.int64)]

    def program(mesh: Mesh, in_tiles: bool) -> tuple[bool, Cost]:
        peer = 1 - mesh.rank
        mine: list[Tensor | Tiled] = [around[0], values(mesh.rank, rows), around[1]]
        mine += [values(mesh.rank, 2), torch.empty((0, 3), dtype=torch.int64)]
        if in_tiles:
            mine[1], mine[3] = tiled(mesh.rank, rows, tile), tiled(mesh.rank, 2)
        with mesh.stats.scope("one") as cost:
            found = mesh.exchange({peer: mine}, {peer: specs})[peer]
        wanted = [around[0], values(peer, rows), around[1], values(peer, 2)]
        same = all(map(torch.equal, found, wanted)) and found[4].shape == (0, 3)
        cost.seconds_waiting = 0.0
        again = mesh.exchange({peer: [around[0]]}, {peer: [SHORT]})[peer][0]
        return same and torch.equal(again, around[0]), cost

    (left, cost), (right, _) = run(kind, partial(program, in_tiles=True)).values()
    (_, whole), _ = run(kind, partial(program, in_tiles=False)).values()
    assert left
    assert right
    assert repr(cost) == repr(whole)


@EACH
def test_one_tensor_goes_to_several_peers_and_only_some_send_tiles(kind):
    def program(mesh: Mesh) -> bool:
        peers = [peer for peer in range(3) if peer != mesh.rank]
        mine = values(mesh.rank, 5) if mesh.rank == 1 else tiled(mesh.rank, 5, 2)
        found = mesh.exchange({peer: [mine] for peer in peers}, {peer: [spec(5)] for peer in peers})
        return all(torch.equal(found[peer][0], values(peer, 5)) for peer in peers)

    assert run(kind, program, parties=3).values() == [True] * 3


@pytest.mark.parametrize("kind", SOCKETS)
def test_a_tile_arrives_before_the_next_is_computed(kind):
    meshes, wanted, seen = connected(kind, 2), values(0, 4), []

    def arrived(start: int) -> None:
        """Waits until the receiver has all earlier tiles in its memory."""
        here = meshes[1].channel(0)._receiver  # type: ignore[attr-defined]
        until(lambda: bool(here._tensors) and torch.equal(here._tensors[0][:start], wanted[:start]))
        seen.append(start)

    def send(mesh: Mesh) -> None:
        with mesh:
            mesh.exchange({1: [tiled(0, 4, before=arrived)]}, {})

    def receive(mesh: Mesh) -> bool:
        with mesh:
            return torch.equal(mesh.exchange({}, {0: [spec(4)]})[0][0], wanted)

    found = together(partial(send, meshes[0]), partial(receive, meshes[1]))
    assert found.values() == [None, True]
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", SOCKETS)
def test_a_party_takes_what_arrives_while_it_computes(kind):
    """When party 0 computes its last tile, it has taken all of its peer's message."""
    meshes, rows, taken = connected(kind, 2), 64, []

    def before(start: int) -> None:
        time.sleep(0.005)
        if start == rows - 1:
            taken.append(1 in meshes[0]._open[0].early)

    def program(mesh: Mesh) -> bool:
        peer = 1 - mesh.rank
        mine = values(1, rows) if mesh.rank else tiled(0, rows, before=before)
        with mesh:
            [found] = mesh.exchange({peer: [mine]}, {peer: [spec(rows)]})[peer]
        return torch.equal(found, values(peer, rows))

    assert together(*(partial(program, mesh) for mesh in meshes)).values() == [True, True]
    assert taken == [True]


@EACH
def test_rounds_in_tiles_may_be_open_at_once_and_fill_queues(kind):
    """A message is larger than what may wait to be sent and what the sockets hold."""
    limits, sizes = Limits(deadline=20.0, max_queued_bytes=1 << 16), [9, 1, 600, 2]

    def program(mesh: Mesh) -> bool:
        peer = 1 - mesh.rank
        opened = [
            mesh.begin({peer: [tiled(mesh.rank, rows, 100)]}, {peer: [spec(rows)]})
            for rows in sizes
        ]
        found = [mesh.finish(one)[peer][0] for one in opened]
        return all(map(torch.equal, found, [values(peer, rows) for rows in sizes]))

    assert run(kind, program, limits=limits).values() == [True, True]


@pytest.mark.parametrize("kind", SOCKETS)
def test_a_sender_may_compute_a_tile_for_longer_than_the_deadline(kind):
    limits = Limits(deadline=0.6, patience=30.0)

    def program(mesh: Mesh) -> bool:
        if mesh.rank == 0:
            mesh.exchange({1: [tiled(0, 3, before=lambda start: time.sleep(start and 0.8))]}, {})
            return True
        return torch.equal(mesh.exchange({}, {0: [spec(3)]})[0][0], values(0, 3))

    assert run(kind, program, limits=limits).values() == [True, True]


@EACH
def test_a_party_that_fails_between_tiles_ends_the_run_at_all(kind):
    def fail(start: int) -> None:
        if start == 2:
            raise RuntimeError("no tile more")

    def program(mesh: Mesh) -> None:
        peer = 1 - mesh.rank
        mine = tiled(mesh.rank, 5, before=fail) if mesh.rank == 0 else values(1, 5)
        mesh.exchange({peer: [mine]}, {peer: [spec(5)]})

    failed, told = run(kind, program)
    assert isinstance(failed, RuntimeError)
    assert isinstance(told, PeerClosed)
    assert told.party == 0
    assert "RuntimeError" in str(told)


@EACH
def test_a_party_that_dies_is_noticed_before_the_next_tile(kind):
    """Also if it is not the one that receives the tiles."""
    meshes, computed = connected(kind, 3), []

    def before(start: int) -> None:
        computed.append(start)
        if start == 1:
            meshes[2].abort("it is gone")
            until(lambda: meshes[0].channel(2).last_word(0.1) is not None)

    def program() -> None:
        with meshes[0] as mesh:
            mesh.exchange({1: [tiled(0, 50, before=before)]}, {1: [spec(1)]})

    [error] = together(program)
    meshes[1].abort("over")
    assert isinstance(error, PeerClosed)
    assert error.party == 2
    assert computed == [0, 1]


# What a peer may not send instead of the next part ----------------------------------------------

WANTED = layout((spec(4),))
BODY = values(0, 4).numpy().tobytes()
HALF = len(BODY) // 2


def part(start: int, end: int, kind: Kind = Kind.PART, operation: int = 0, **changes) -> bytes:
    how = WANTED if kind == Kind.TENSORS else layout(())
    return pack(kind, SESSION, operation, how, end - start, **changes) + BODY[start:end]


FIRST = part(0, HALF, Kind.TENSORS)
GOOD = {
    "two parts": FIRST + part(HALF, len(BODY)),
    "a short last part": part(0, len(BODY) - 1, Kind.TENSORS) + part(len(BODY) - 1, len(BODY)),
    "many parts": b"".join(
        part(at, at + PROGRESS_BYTES, Kind.PART if at else Kind.TENSORS)
        for at in range(0, len(BODY), PROGRESS_BYTES)
    ),
}
BAD = {
    "a short part": FIRST + part(HALF, HALF + PROGRESS_BYTES - 1) + part(HALF + 1, len(BODY)),
    "a short first part": part(0, PROGRESS_BYTES - 1, Kind.TENSORS),
    "an empty part": FIRST + part(HALF, HALF) + part(HALF, len(BODY)),
    "too much": FIRST + part(HALF - 1, len(BODY)),
    "another message": FIRST + part(0, len(BODY), Kind.TENSORS),
    "another operation": FIRST + part(HALF, len(BODY), operation=1),
    "no first part": part(HALF, len(BODY)),
    "another session": FIRST + part(HALF, len(BODY)).replace(SESSION, bytes(16)),
    "a heartbeat": FIRST + part(HALF, len(BODY), Kind.BEAT),
    "the end": FIRST,
}


@pytest.mark.parametrize("what", GOOD)
def test_parts_of_any_sizes_are_one_message(what):
    def expect(mesh: Mesh) -> None:
        assert torch.equal(mesh.exchange({}, {1: [spec(4)]})[1][0], values(0, 4))

    listen_to(GOOD[what], expect)


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_the_next_part_is_refused(what):
    with pytest.raises(Error) as caught:
        listen_to(BAD[what], lambda mesh: mesh.exchange({}, {1: [spec(4)]}))
    assert isinstance(caught.value, FrameRejected | PeerClosed)
    assert "party 1" in str(caught.value)


def test_a_part_with_another_public_record_is_a_mismatch():
    other = part(HALF, len(BODY), digest=bytes([1]) + NO_DIGEST[1:])
    with pytest.raises(PublicMismatch):
        listen_to(FIRST + other, lambda mesh: mesh.exchange({}, {1: [spec(4)]}))
