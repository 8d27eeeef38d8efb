"""Messages of memory that stays pass like others, and what is not such a message is told alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.transport.parties import run
from torch import Tensor

from tacit.errors import PeerClosed, ProtocolDesync, PublicMismatch
from tacit.transport import Cost, FixedRound, Mesh, Spec
from tacit.transport.local import fixed_copies, memory
from tacit.transport.wire import socket_channel, tls
from tacit.transport.wire.frames import (
    DIGEST_AT,
    HEADER,
    OPERATION_AT,
    SHORT_BYTES,
    Kind,
    layout,
    pack,
)
from tacit.transport.wire.openssl_session import compiled, load_openssl

pytestmark = pytest.mark.skipif(load_openssl() is None, reason="the interpreter contains OpenSSL")
BOTH = pytest.mark.parametrize("kind", ["memory", "tls"])
SIZE = 300
SPEC = Spec((SIZE,), torch.int64)
DONE = [None, None]


def tensor(seed: int, size: int = SIZE) -> Tensor:
    return torch.arange(size) * 1_000_003 + seed


def fixed_round(mesh: Mesh, x: Tensor, place: Tensor) -> FixedRound:
    peer = 1 - mesh.rank
    made = mesh.fixed_round({peer: [x]}, {peer: [place]}, ahead=False)
    assert made is not None
    return made


def exchanged(
    mesh: Mesh, x: Tensor, place: Tensor, *, operation: int = 7, is_fixed: bool = True
) -> None:
    """One round, with fixed messages or ordinary ones."""
    if is_fixed:
        one = fixed_round(mesh, x, place)
        mesh.begin_fixed(one, operation)
        mesh.finish_fixed(one)
        return
    peer, spec = 1 - mesh.rank, Spec(tuple(place.shape), place.dtype)
    opened = mesh.begin({peer: [x]}, {peer: [spec]}, operation=operation, into={peer: [place]})
    assert mesh.finish(opened)[peer][0] is place


def test_where_a_message_has_its_number_and_its_digest() -> None:
    how, digest = layout((SPEC,)), bytes(range(16))
    x, session = tensor(1), bytes(range(100, 116))
    head = pack(Kind.TENSORS, session, 0, how, how.size)
    parts = [(x.data_ptr(), x.nbytes)]
    message = compiled().Message(head, parts, [0], OPERATION_AT, DIGEST_AT)
    number = (1 << 63) + 12_345
    wanted = pack(Kind.TENSORS, session, number, how, how.size, digest=digest)
    assert message.encoded(number, digest) == wanted + x.numpy().tobytes()
    assert message.size == len(wanted) + x.nbytes
    with pytest.raises(ValueError, match="digest"):
        message.encoded(1, digest[:-1])
    with pytest.raises(ValueError, match="head"):
        compiled().Message(head[: HEADER.size - 1], parts, [0], OPERATION_AT, DIGEST_AT)


@BOTH
@pytest.mark.parametrize("size", [0, 1, SIZE, 2048, 16_000])
def test_fixed_and_ordinary_messages_are_the_same_to_the_other_side(size: int, kind: str) -> None:
    def main(mesh: Mesh) -> None:
        for seed in range(4):
            place, is_fixed = torch.zeros(size, dtype=torch.int64), bool(seed & 1 << mesh.rank)
            exchanged(mesh, tensor(mesh.rank, size), place, is_fixed=is_fixed)
            assert place.equal(tensor(1 - mesh.rank, size))

    assert run(kind, main) == DONE


@BOTH
def test_a_fixed_round_costs_what_an_ordinary_one_does(kind: str) -> None:
    def main(mesh: Mesh) -> list[list[float]]:
        found = []
        for is_fixed in (False, True):
            with mesh.stats.scope("round") as cost:
                exchanged(mesh, tensor(0), torch.zeros_like(tensor(0)), is_fixed=is_fixed)
            assert cost.seconds_waiting > 0 < cost.peers[1 - mesh.rank].seconds_waiting
            counted = [cost, cost.peers[1 - mesh.rank]]
            for one in counted:
                one.seconds_waiting = 0.0
            found.append([getattr(one, name) for one in counted for name in Cost.__slots__])
        return found

    for ordinary, fixed_ones in run(kind, main).values():
        assert ordinary == fixed_ones
        assert ordinary[:4] == [8 * SIZE, 8 * SIZE, 1, 1]


@BOTH
def test_a_fixed_round_that_is_left_open_is_taken_before_the_next(kind: str) -> None:
    """As when a step of a plan fails between a round's sending and receiving."""

    def main(mesh: Mesh) -> None:
        place, other = torch.zeros_like(tensor(0)), torch.zeros_like(tensor(0))
        one = fixed_round(mesh, tensor(mesh.rank), place)
        mesh.begin_fixed(one, 3)
        exchanged(mesh, tensor(5 + mesh.rank), other)
        assert place.equal(tensor(1 - mesh.rank))
        assert other.equal(tensor(6 - mesh.rank))
        for operation in (4, 5):
            place.zero_()
            mesh.begin_fixed(one, operation)
        mesh.finish_fixed(one)
        assert place.equal(tensor(1 - mesh.rank))
        assert not mesh._open

    assert run(kind, main) == DONE


@BOTH
def test_a_message_that_comes_late_is_waited_for(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent once the other party has stopped to wait for this message alone."""
    monkeypatch.setattr(tls, "_PATIENCE_MS", 20)
    monkeypatch.setattr(memory, "_PATIENCE", 0.02)
    meshes: dict[int, Mesh] = {}

    def main(mesh: Mesh) -> None:
        meshes[mesh.rank] = mesh
        while mesh.rank == 0 and not (1 in meshes and meshes[1].waiting_for):
            time.sleep(1e-3)
        place = torch.zeros_like(tensor(0))
        exchanged(mesh, tensor(mesh.rank), place)
        assert place.equal(tensor(1 - mesh.rank))
        assert mesh.rank == 0 or mesh.stats.seconds_waiting >= 0.02

    assert run(kind, main) == DONE


def test_a_copy_that_somebody_holds_is_not_written_again() -> None:
    """What comes as an ordinary message stays as it is while fixed ones follow."""
    count = 12

    def main(mesh: Mesh) -> None:
        peer, x = 1 - mesh.rank, torch.empty_like(tensor(0))
        if mesh.rank == 0:
            one = mesh.fixed_round({peer: [x]}, {}, ahead=False)
            assert one is not None
            for seed in range(count):
                x.copy_(tensor(seed))
                mesh.begin_fixed(one, seed)
                mesh.exchange({}, {peer: []}, operation=count + seed)
            return
        held = []
        for seed in range(count):
            [got] = mesh.exchange({}, {peer: [SPEC]}, operation=seed)[peer]
            held.append(got[1:])
            mesh.exchange({peer: []}, {}, operation=count + seed)
        assert all(map(torch.equal, held, [tensor(seed)[1:] for seed in range(count)]))

    assert run("memory", main) == DONE


def test_memory_of_copies_is_used_again() -> None:
    sent = fixed_copies.CopiedTensors([tensor(0)], layout((SPEC,)))
    first = sent.copies()
    address, second = first[0].data_ptr(), sent.copies()
    assert second[0].data_ptr() != address  # the first one is not taken yet
    del first
    assert sent.copies()[0].data_ptr() == address


@pytest.mark.parametrize("limit", [700, 2_500, 20_000])
def test_fixed_messages_pass_renewals(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "RENEW_BYTES", limit)
    monkeypatch.setattr(socket_channel, "BEATS_PER_DEADLINE", 3_000)
    count = 30

    def main(mesh: Mesh) -> int:
        x, place = torch.empty_like(tensor(0)), torch.empty_like(tensor(0))
        for seed in range(count):
            x.copy_(tensor(seed + mesh.rank))
            exchanged(mesh, x, place)
            assert place.equal(tensor(seed + 1 - mesh.rank))
        found: int = mesh.channel(1 - mesh.rank).incoming.renewals  # type: ignore[attr-defined]
        return found

    for renewals in run("tls", main).values():
        assert renewals >= count * 8 * SIZE // limit


@BOTH
def test_a_fixed_message_behind_a_queue_keeps_its_bytes_and_its_place(kind: str) -> None:
    """A long message before it is still to be written, or to be taken."""
    long = Spec((3 << 20,), torch.int64)

    def main(mesh: Mesh) -> None:
        peer, x, place = 1 - mesh.rank, tensor(mesh.rank), torch.empty_like(tensor(0))
        second = fixed_round(mesh, x, place)
        first = mesh.begin({peer: [torch.ones(long.shape, dtype=torch.int64)]}, {peer: [long]})
        mesh.begin_fixed(second, 7)
        x.zero_()
        assert mesh.finish(first)[peer][0].sum() == long.shape[0]
        mesh.finish_fixed(second)
        assert place.equal(tensor(peer))

    assert run(kind, main) == DONE


def fixed_bytes(channel: Any, x: Tensor, digest: bytes) -> bytes:
    data: bytes = channel.fixed([x]).message.encoded(5, digest)
    return data


@pytest.mark.parametrize("ends", [(1,), (HEADER.size,), (100,), (HEADER.size - 3, 200, 201)])
def test_a_message_in_several_records_is_the_same_message(ends: tuple[int, ...]) -> None:
    def main(mesh: Mesh) -> None:
        x, place = tensor(3), torch.zeros_like(tensor(0))
        channel: Any = mesh.channel(1 - mesh.rank)
        one = mesh.fixed_round({}, {1 - mesh.rank: [place]}, ahead=False)
        assert one is not None
        data = fixed_bytes(channel, x, mesh.record.digest)
        for start, end in pairwise((0, *ends, len(data))):
            channel.outgoing.write((data[start:end],))
        mesh.begin_fixed(one, 5)
        mesh.finish_fixed(one)
        assert place.equal(x)

    assert run("tls", main) == DONE


def told(kind: str, change: Callable[[Mesh], tuple[Any, Any, int]], *, is_fixed: bool) -> Any:
    """What both parties raise where one of them begins another round."""

    def main(mesh: Mesh) -> None:
        x, place, operation = change(mesh)
        exchanged(mesh, x, place, operation=operation, is_fixed=is_fixed)

    return run(kind, main)


def other_operation(mesh: Mesh) -> tuple[Tensor, Tensor, int]:
    return tensor(0), tensor(0), 7 + mesh.rank


def other_shape(mesh: Mesh) -> tuple[Tensor, Tensor, int]:
    return tensor(0, 10 + mesh.rank), tensor(0, 10 + mesh.rank), 7


def other_record(mesh: Mesh) -> tuple[Tensor, Tensor, int]:
    mesh.record.digest = bytes([mesh.rank]) * 16  # type: ignore[misc]
    return tensor(0), tensor(0), 7


@BOTH
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (other_operation, ProtocolDesync),
        (other_shape, ProtocolDesync),
        (other_record, PublicMismatch),
    ],
)
def test_another_message_is_told_like_an_ordinary_one(
    change: Any, error: type[Exception], kind: str
) -> None:
    raised = [told(kind, change, is_fixed=is_fixed) for is_fixed in (True, False)]
    for rank in range(2):
        one, other = raised[0][rank], raised[1][rank]
        assert isinstance(one, error | PeerClosed)
        texts = {str(x).replace("party 1", "party 0") for x in (one, other)}  # who notices first
        assert len(texts) == 1 or {type(one), type(other)} == {error, PeerClosed}
    assert any(isinstance(one, error) for one in raised[0])


def test_a_peer_that_ends_within_a_message_is_told() -> None:
    def main(mesh: Mesh) -> None:
        channel: Any = mesh.channel(1 - mesh.rank)
        if mesh.rank == 0:
            data = fixed_bytes(channel, tensor(0), mesh.record.digest)
            channel.outgoing.write((data[:100],))
            raise KeyError("in the middle")
        place = torch.zeros_like(tensor(0))
        one = mesh.fixed_round({}, {0: [place]}, ahead=False)
        assert one is not None
        mesh.begin_fixed(one, 5)
        mesh.finish_fixed(one)

    outcome = run("tls", main)
    assert isinstance(outcome[1], PeerClosed)


def test_which_messages_are_fixed() -> None:
    def main(mesh: Mesh) -> None:
        channel = mesh.channel(1 - mesh.rank)
        assert channel.fixed([torch.zeros(4, 4).T[:2]]) is None  # does not lie as it is sent
        assert channel.fixed([torch.zeros(SHORT_BYTES)]) is None
        assert channel.fixed([]) is not None

    assert run("tls", main) == DONE
    shaped = {"latency": 1e-3, "bandwidth": 1e9}

    def none(mesh: Mesh) -> None:
        assert mesh.channel(1 - mesh.rank).fixed([tensor(0)]) is None

    assert run("tls", none, network=shaped) == DONE
    assert run("memory", none, network=shaped) == DONE
    assert run("tcp", none) == DONE

    def long(mesh: Mesh) -> None:
        channel = mesh.channel(1 - mesh.rank)
        assert channel.fixed([torch.zeros(SHORT_BYTES)]) is not None
        assert channel.fixed([torch.zeros(4, 4).T[:2]]) is None

    assert run("memory", long) == DONE
