"""Messages of memory that stays pass like others, and what is not such a message is told alike."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.transport.parties import run
from torch import Tensor

from tacit.errors import PeerClosed, ProtocolDesync, PublicMismatch
from tacit.transport import Mesh, Spec
from tacit.transport.channel import Expected
from tacit.transport.wire import sender, socket_channel, tls
from tacit.transport.wire.fixed_message import FixedTensors
from tacit.transport.wire.frames import (
    DIGEST_AT,
    HEADER,
    NO_DIGEST,
    OPERATION_AT,
    Kind,
    layout,
    pack,
)
from tacit.transport.wire.openssl_session import compiled, load_openssl

pytestmark = pytest.mark.skipif(load_openssl() is None, reason="the interpreter contains OpenSSL")
SIZE = 300
SPEC = Spec((SIZE,), torch.int64)
DONE = [None, None]


def tensor(seed: int, size: int = SIZE) -> Tensor:
    return torch.arange(size) * 1_000_003 + seed


def fixed(mesh: Mesh, x: Tensor) -> FixedTensors:
    made = mesh.channel(1 - mesh.rank).fixed([x])
    assert made is not None
    return made


def exchanged(mesh: Mesh, x: Tensor, place: Tensor, *, sends: bool, receives: bool) -> None:
    """One round, with fixed messages for what is sent and what is received, or ordinary ones."""
    peer = 1 - mesh.rank
    into = {peer: fixed(mesh, place) if receives else [place]}
    send = {peer: fixed(mesh, x) if sends else [x]}
    opened = mesh.begin(send, {peer: [Spec(tuple(place.shape), place.dtype)]}, into=into)
    assert mesh.finish(opened)[peer][0] is place


def test_where_a_message_has_its_number_and_its_digest() -> None:
    how, digest = layout((SPEC,)), bytes(range(16))
    x, session = tensor(1), bytes(range(100, 116))
    head = pack(Kind.TENSORS, session, 0, how, how.size)
    parts = [(x.data_ptr(), x.nbytes)]
    message = compiled().Message(head, parts, OPERATION_AT, DIGEST_AT)
    number = (1 << 63) + 12_345
    wanted = pack(Kind.TENSORS, session, number, how, how.size, digest=digest)
    assert message.encoded(number, digest) == wanted + x.numpy().tobytes()
    assert message.size == len(wanted) + x.nbytes
    with pytest.raises(ValueError, match="digest"):
        message.encoded(1, digest[:-1])
    with pytest.raises(ValueError, match="head"):
        compiled().Message(head[: HEADER.size - 1], parts, OPERATION_AT, DIGEST_AT)


@pytest.mark.parametrize("size", [0, 1, SIZE, 2048, 8000])
def test_fixed_and_ordinary_messages_are_the_same_to_the_other_side(size: int) -> None:
    def main(mesh: Mesh) -> None:
        for seed in range(8):
            sends, receives = bool(seed & 1 << mesh.rank), bool(seed & 4)
            place = torch.zeros(size, dtype=torch.int64)
            exchanged(mesh, tensor(mesh.rank, size), place, sends=sends, receives=receives)
            assert place.equal(tensor(1 - mesh.rank, size))

    assert run("tls", main) == DONE


@pytest.mark.parametrize("limit", [700, 2_500, 20_000])
def test_fixed_messages_pass_renewals(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "RENEW_BYTES", limit)
    monkeypatch.setattr(socket_channel, "BEATS_PER_DEADLINE", 3_000)
    count = 30

    def main(mesh: Mesh) -> int:
        x, place = torch.empty_like(tensor(0)), torch.empty_like(tensor(0))
        for seed in range(count):
            x.copy_(tensor(seed + mesh.rank))
            exchanged(mesh, x, place, sends=True, receives=True)
            assert place.equal(tensor(seed + 1 - mesh.rank))
        found: int = mesh.channel(1 - mesh.rank).incoming.renewals  # type: ignore[attr-defined]
        return found

    for renewals in run("tls", main).values():
        assert renewals >= count * 8 * SIZE // limit


def test_a_fixed_message_behind_a_queue_keeps_its_bytes_and_its_place() -> None:
    """The thread that writes is still busy with a long message before it."""
    long = Spec((3 << 20,), torch.int64)

    def main(mesh: Mesh) -> None:
        peer, x, place = 1 - mesh.rank, tensor(mesh.rank), torch.empty_like(tensor(0))
        message, into = fixed(mesh, x), fixed(mesh, place)
        first = mesh.begin({peer: [torch.ones(long.shape, dtype=torch.int64)]}, {peer: [long]})
        second = mesh.begin({peer: message}, {peer: [SPEC]}, into={peer: into})
        x.zero_()
        assert mesh.finish(first)[peer][0].sum() == long.shape[0]
        mesh.finish(second)
        assert place.equal(tensor(peer))

    assert run("tls", main) == DONE


def fixed_bytes(channel: Any, x: Tensor, digest: bytes) -> bytes:
    data: bytes = channel.fixed([x]).message.encoded(5, digest)
    return data


@pytest.mark.parametrize("ends", [(1,), (HEADER.size,), (100,), (HEADER.size - 3, 200, 201)])
def test_a_message_in_several_records_is_the_same_message(ends: tuple[int, ...]) -> None:
    def main(mesh: Mesh) -> None:
        x, place = tensor(3), torch.zeros_like(tensor(0))
        channel: Any = mesh.channel(1 - mesh.rank)
        into = fixed(mesh, place)
        how = layout((SPEC,))
        data = fixed_bytes(channel, x, NO_DIGEST)
        for start, end in pairwise((0, *ends, len(data))):
            channel.outgoing.write((data[start:end],))
        channel.expect(Expected(Kind.TENSORS, 5, how, NO_DIGEST, into))
        while channel.recv(patient=False) is None:
            pass
        assert place.equal(x)

    assert run("tls", main) == DONE


def told(change: Callable[[Mesh], tuple[Any, Any, int]], *, is_fixed: bool) -> Any:
    """What both parties raise where one of them begins another round."""

    def main(mesh: Mesh) -> None:
        x, place, operation = change(mesh)
        peer = 1 - mesh.rank
        send = {peer: fixed(mesh, x) if is_fixed else [x]}
        into = {peer: fixed(mesh, place) if is_fixed else [place]}
        spec = [Spec(tuple(place.shape), place.dtype)]
        mesh.finish(mesh.begin(send, {peer: spec}, operation=operation, into=into))

    return run("tls", main)


def other_operation(mesh: Mesh) -> tuple[Tensor, Tensor, int]:
    return tensor(0), tensor(0), 7 + mesh.rank


def other_shape(mesh: Mesh) -> tuple[Tensor, Tensor, int]:
    return tensor(0, 10 + mesh.rank), tensor(0, 10 + mesh.rank), 7


def other_record(mesh: Mesh) -> tuple[Tensor, Tensor, int]:
    mesh.record.digest = bytes([mesh.rank]) * 16  # type: ignore[misc]
    return tensor(0), tensor(0), 7


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (other_operation, ProtocolDesync),
        (other_shape, ProtocolDesync),
        (other_record, PublicMismatch),
    ],
)
def test_another_message_is_told_like_an_ordinary_one(change: Any, kind: type[Exception]) -> None:
    raised = [told(change, is_fixed=is_fixed) for is_fixed in (True, False)]
    for rank in range(2):
        one, other = raised[0][rank], raised[1][rank]
        assert isinstance(one, kind | PeerClosed)
        assert str(one) == str(other) or {type(one), type(other)} == {kind, PeerClosed}
    assert any(isinstance(one, kind) for one in raised[0])


def test_a_peer_that_ends_within_a_message_is_told() -> None:
    def main(mesh: Mesh) -> None:
        channel: Any = mesh.channel(1 - mesh.rank)
        if mesh.rank == 0:
            data = fixed_bytes(channel, tensor(0), mesh.record.digest)
            channel.outgoing.write((data[:100],))
            raise KeyError("in the middle")
        place = torch.zeros_like(tensor(0))
        into = {0: fixed(mesh, place)}
        mesh.finish(mesh.begin({}, {0: [SPEC]}, operation=5, into=into))

    outcome = run("tls", main)
    assert isinstance(outcome[1], PeerClosed)


def test_which_messages_are_fixed() -> None:
    def main(mesh: Mesh) -> None:
        channel = mesh.channel(1 - mesh.rank)
        assert channel.fixed([torch.zeros(4, 4).T[:2]]) is None  # does not lie as it is sent
        assert channel.fixed([torch.zeros(sender.SHORT_BYTES)]) is None
        assert channel.fixed([]) is not None

    assert run("tls", main) == DONE
    shaped = {"latency": 1e-3, "bandwidth": 1e9}

    def none(mesh: Mesh) -> None:
        assert mesh.channel(1 - mesh.rank).fixed([tensor(0)]) is None

    assert run("tls", none, network=shaped) == DONE
    assert run("tcp", none) == DONE
