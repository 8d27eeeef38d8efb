"""Messages that are copied while they are sent and while they arrive, with memory that is no GPU's.

tests/gpu runs the same on a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from tests.transport.parties import SOCKETS, run

from tacit.transport import Mesh, Spec, device_copies
from tacit.transport.device_copies import Upload, to_pinned_parts
from tacit.transport.wire import receiver, stripes
from tacit.transport.wire.frames import Kind, bytes_between
from tacit.transport.wire.socket_channel import SocketChannel

PART = 1 << 16
SPECS = [Spec((30_000,), torch.int64), Spec((3,), torch.bool), Spec((700, 101), torch.int32)]
SIZE = 30_000 * 8 + 3 + 700 * 101 * 4
Tensors = Sequence[torch.Tensor]


class Event:
    """An event of a slow GPU: the copies before it are made when somebody waits for it."""

    queued = threading.local()  # the copies that a thread has asked for since its last event

    def __init__(self, device: torch.device) -> None:
        self._copies, self.queued.copies = self.queued.copies, []

    def wait(self) -> None:
        for target, source in self._copies:
            target.copy_(source)


def queue_copies(to: Tensors, source: Tensors, start: int, end: int) -> None:
    pieces = bytes_between(to, start, end), bytes_between(source, start, end)
    Event.queued.copies = [*getattr(Event.queued, "copies", ()), *zip(*pieces, strict=True)]


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lets large tensors be those of a GPU; returns how many bytes were there at each upload."""
    copy, whole, uploads = device_copies._copy_between, SocketChannel.send, []

    def extend(upload: Upload, size: int) -> None:
        uploads.append(size)
        copy(upload.tensors, upload._received, upload._size, size)
        upload._size = size

    def send(
        channel: SocketChannel, kind: Kind, operation: int, digest: bytes, tensors: Tensors
    ) -> int:
        is_large = sum(tensor.nbytes for tensor in tensors) >= 2 * PART
        way = SocketChannel._send_copies if is_large else whole
        return way(channel, kind, operation, digest, tensors)

    monkeypatch.setattr(device_copies, "PART_BYTES", PART)
    monkeypatch.setattr(device_copies, "ReadyEvent", Event)
    monkeypatch.setattr(device_copies, "_copy_between", queue_copies)
    monkeypatch.setattr(Upload, "extend", extend)
    monkeypatch.setattr(stripes, "SLICE_BYTES", 1 << 14)
    monkeypatch.setattr(SocketChannel, "send", send)
    monkeypatch.setattr(receiver, "arrives_in_host_memory", lambda device: True)
    return uploads


def tensors(rank: int) -> list[torch.Tensor]:
    made = [torch.arange(torch.Size(shape).numel()) * 77 + rank for shape, _ in SPECS]
    return [x.to(spec.dtype).view(spec.shape) for x, spec in zip(made, SPECS, strict=True)]


@pytest.mark.usefixtures("pretended")
def test_parts_are_ready_one_after_another() -> None:
    sent = tensors(1)
    copies, parts = to_pinned_parts(sent)
    for copy in copies:
        copy.zero_()
    assert (parts[0].start, parts[-1].end) == (0, SIZE)
    assert all(a.end == b.start for a, b in pairwise(parts))
    assert all(PART <= part.end - part.start < 2 * PART for part in parts)
    parts[0].ready.wait()
    here, all_of_it = (x[0].view(torch.uint8) for x in (copies, sent))
    assert here[: parts[0].end].equal(all_of_it[: parts[0].end])
    assert not here[parts[0].end :].any()
    for part in parts:
        part.ready.wait()
    assert all(a.equal(b) for a, b in zip(copies, sent, strict=True))


@pytest.mark.parametrize("kind", SOCKETS)
@pytest.mark.parametrize("num_stripes", [1, 3])
def test_a_message_in_copies_is_that_of_the_whole(
    kind: str, num_stripes: int, pretended: list[int]
) -> None:
    def main(mesh: Mesh) -> bool:
        peer, one = 1 - mesh.rank, [Spec((), torch.int64)]
        for turn in range(3):
            got = mesh.exchange({peer: tensors(mesh.rank + turn)}, {peer: SPECS})[peer]
            assert all(a.equal(b) for a, b in zip(got, tensors(peer + turn), strict=True))
            assert int(mesh.exchange({peer: [torch.tensor(turn)]}, {peer: one})[peer][0]) == turn
        return True

    assert run(kind, main, stripes=(num_stripes, num_stripes)) == [True, True]
    assert pretended.count(SIZE) == 6
    assert len(pretended) == 6 * (SIZE // PART)


def test_uploads_are_those_of_the_parts_that_have_come() -> None:
    received = tensors(5)
    upload = Upload(received, torch.device("cpu"))
    for tensor in upload.tensors:
        tensor.zero_()
    upload.extend(1000)
    assert upload.tensors[0][:125].equal(received[0][:125])
    assert not upload.tensors[0][125:].any()
    upload.extend(sum(x.nbytes for x in received))
    assert all(a.equal(b) for a, b in zip(upload.tensors, received, strict=True))
