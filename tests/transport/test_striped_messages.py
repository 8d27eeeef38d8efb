"""Messages of memory that stays, too long for one piece: copied and sent by threads of stripes."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from tests.transport.parties import run
from torch import Tensor

from tacit.errors import PeerClosed, PeerTimeout, ProtocolDesync
from tacit.transport import FixedRound, Limits, Mesh, Spec, root_cause
from tacit.transport.wire import receiver, sender, stripes, tls
from tacit.transport.wire.frames import SHORT_BYTES
from tacit.transport.wire.openssl_session import load_openssl
from tacit.transport.wire.stripes import MOST_COPIED, StripedTensors

pytestmark = pytest.mark.skipif(load_openssl() is None, reason="the interpreter contains OpenSSL")
STRIPES = (3, 3)
SIZE = SHORT_BYTES // 8 + 5_003
SIZES = [SHORT_BYTES // 8, SIZE, 3 * SIZE, MOST_COPIED // 8]
DONE = [None, None]


def tensor(seed: int, size: int = SIZE) -> Tensor:
    return torch.arange(size) * 1_000_003 + seed


def channel(mesh: Mesh) -> Any:
    return mesh.channel(1 - mesh.rank)


def fixed_round(mesh: Mesh, x: Tensor | None, place: Tensor | None) -> FixedRound:
    peer = 1 - mesh.rank
    send, into = ({} if one is None else {peer: [one]} for one in (x, place))
    made = mesh.fixed_round(send, into, ahead=False)
    assert made is not None
    parts = [*made.outgoing, *made.incoming]
    assert all(isinstance(part.message, StripedTensors) for part in parts)
    return made


def exchanged(mesh: Mesh, x: Tensor, place: Tensor, *, operation: int = 7) -> None:
    one = fixed_round(mesh, x, place)
    mesh.begin_fixed(one, operation)
    mesh.finish_fixed(one)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("patience", [None, 0.0])
def test_they_are_ordinary_messages_to_the_other_side(
    size: int, patience: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a party does not wait for the slices of what it has begun to receive."""
    if patience is not None:
        monkeypatch.setattr(receiver, "PATIENCE", patience)

    def main(mesh: Mesh) -> None:
        peer, spec = 1 - mesh.rank, Spec((size,), torch.int64)
        for seed in range(8):
            place, x = torch.zeros(size, dtype=torch.int64), tensor(mesh.rank + seed, size)
            if seed & 1 << mesh.rank:
                exchanged(mesh, x, place, operation=seed)
            else:
                sent = mesh.begin({peer: [x]}, {peer: [spec]}, operation=seed, into={peer: [place]})
                mesh.finish(sent)
            assert place.equal(tensor(peer + seed, size))

    assert run("tls", main, stripes=STRIPES) == DONE


def test_tensors_of_several_kinds_that_slices_cut() -> None:
    def main(mesh: Mesh) -> None:
        peer, ends = 1 - mesh.rank, torch.tensor(mesh.rank)
        parts = [ends, tensor(mesh.rank, 9_001).to(torch.int32), tensor(0, 0), tensor(mesh.rank)]
        places = [torch.zeros_like(x) for x in parts]
        one = mesh.fixed_round({peer: parts}, {peer: places}, ahead=False)
        assert one is not None
        mesh.begin_fixed(one, 3)
        mesh.finish_fixed(one)
        wanted = [1 - ends, tensor(peer, 9_001).to(torch.int32), tensor(0, 0), tensor(peer)]
        assert all(map(torch.equal, places, wanted))

    assert run("tls", main, stripes=STRIPES) == DONE


@pytest.mark.parametrize("spreading", [0.0, 2e-3])
def test_what_is_sent_is_what_tensors_held_then(
    spreading: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also behind messages that are still on their way, and an ordinary one in between."""
    monkeypatch.setattr(sender, "_SPREADING_SECONDS", spreading)
    count, long = 12, 1 << 19

    def main(mesh: Mesh) -> None:
        peer = 1 - mesh.rank
        if mesh.rank == 0:
            x = torch.empty(long, dtype=torch.int64)
            one = fixed_round(mesh, x, None)
            for seed in range(count):
                x.copy_(tensor(seed, long))
                mesh.begin_fixed(one, 2 * seed)
                x.zero_()
                mesh.exchange({peer: [tensor(seed)]}, {}, operation=2 * seed + 1)
            mesh.flush()
            return
        place = torch.empty(long, dtype=torch.int64)
        one = fixed_round(mesh, None, place)
        for seed in range(count):
            mesh.begin_fixed(one, 2 * seed)
            mesh.finish_fixed(one)
            assert place.equal(tensor(seed, long))
            spec = Spec((SIZE,), torch.int64)
            assert mesh.exchange({}, {peer: [spec]}, operation=2 * seed + 1)[peer][0].equal(
                tensor(seed)
            )

    assert run("tls", main, stripes=STRIPES) == DONE


@pytest.mark.parametrize("limit", [70_000, 200_001, 1 << 20])
def test_they_pass_renewals(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "RENEW_BYTES", limit)

    def main(mesh: Mesh) -> int:
        x, place = torch.empty_like(tensor(0)), torch.empty_like(tensor(0))
        for seed in range(30):
            x.copy_(tensor(seed + mesh.rank))
            exchanged(mesh, x, place)
            assert place.equal(tensor(seed + 1 - mesh.rank))
        return sum(stream.renewals for stream in channel(mesh)._in.streams)

    for renewals in run("tls", main, stripes=STRIPES).values():
        assert renewals >= 30 * 8 * SIZE // limit - 3


def test_a_message_that_comes_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_PATIENCE_MS", 20)

    def main(mesh: Mesh) -> None:
        time.sleep(0.2 * mesh.rank)
        place = torch.zeros_like(tensor(0))
        exchanged(mesh, tensor(mesh.rank), place)
        assert place.equal(tensor(1 - mesh.rank))

    assert run("tls", main, stripes=STRIPES) == DONE


def test_another_round_is_told() -> None:
    def main(mesh: Mesh) -> None:
        exchanged(mesh, tensor(0), torch.zeros_like(tensor(0)), operation=7 + mesh.rank)

    errors = run("tls", main, stripes=STRIPES)
    assert any(isinstance(error, ProtocolDesync) for error in errors)


@pytest.mark.parametrize("way", ["_out", "_in"])
def test_a_stripe_that_is_cut_ends_the_run_at_both(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_cause, "_LAST_WORD_SECONDS", 0.5)

    def main(mesh: Mesh) -> None:
        if mesh.rank == 0:
            getattr(channel(mesh), way).streams[1].cut()
        for operation in range(2):
            exchanged(mesh, tensor(0), torch.zeros_like(tensor(0)), operation=operation)

    for error in run("tls", main, stripes=STRIPES):
        assert isinstance(error, PeerClosed)


def test_a_peer_that_takes_nothing_is_noticed() -> None:
    """What does not fit into the buffers of the system stays with the threads of the stripes."""
    limits, noticed = Limits(deadline=1.0, patience=1.0, max_queued_bytes=1 << 30), []

    def main(mesh: Mesh) -> None:
        if mesh.rank == 1:
            while not noticed:
                time.sleep(0.01)
            return
        x = torch.zeros(MOST_COPIED // 8, dtype=torch.int64)
        one = fixed_round(mesh, x, None)
        try:
            for operation in range(20):
                mesh.begin_fixed(one, operation)
            mesh.flush()
        finally:
            noticed.append(True)

    assert isinstance(run("tls", main, stripes=STRIPES, limits=limits)[0], PeerTimeout)


def test_a_peer_that_has_taken_all_is_not_said_to_take_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However the end of a message was seen: here or in the background."""
    monkeypatch.setattr(sender, "_SPREADING_SECONDS", 0.0)
    seconds, count = 0.5, 6

    def main(mesh: Mesh) -> None:
        long = 1 << 19
        one = fixed_round(
            mesh, *((tensor(0, long), None) if mesh.rank else (None, tensor(0, long)))
        )
        for operation in range(count):
            mesh.begin_fixed(one, operation)
            mesh.finish_fixed(one)
        mesh.exchange({1 - mesh.rank: []}, {1 - mesh.rank: []}, operation=count)
        time.sleep(2 * seconds)
        channel(mesh).check()

    limits = Limits(deadline=seconds, patience=60.0)
    assert run("tls", main, stripes=STRIPES, limits=limits) == DONE


def test_which_messages_these_are(monkeypatch: pytest.MonkeyPatch) -> None:
    longer = MOST_COPIED // 8 + 1

    def main(mesh: Mesh) -> None:
        assert isinstance(channel(mesh).fixed([tensor(0)]), StripedTensors)
        assert mesh.longest_fixed(1 - mesh.rank) == MOST_COPIED
        assert channel(mesh).fixed([tensor(0, longer)]) is None
        monkeypatch.setattr(stripes, "SLICE_BYTES", 8 * SIZE)
        assert channel(mesh).fixed([tensor(0)]) is None  # a single slice

    assert run("tls", main, stripes=STRIPES) == DONE
