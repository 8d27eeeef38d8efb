"""Training in an enclave whose memory is limited: the same weights, within the limit."""

from __future__ import annotations

import errno
import threading

import pytest
import torch
from tests.enclave.limited import seal_everything_always
from tests.enclave.trainings import train, trained
from torch import nn

import tacit
from tacit.enclave.trusted import sealed_memory
from tacit.enclave.trusted.host_storage import FileStorage
from tacit.errors import OutOfMemory, PartyFailed, SealedChunkRejected

LIMIT = 5 << 20
BATCH = 32


def network() -> nn.Module:
    torch.manual_seed(3)
    first = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*first, *second, nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))


def learnt(session, steps=3):
    """The weights after some steps of training, and what the enclave's memory counted."""
    model = session.share(network(), owner=0)
    generator = torch.Generator().manual_seed(4)
    x = session.share(torch.rand(BATCH, 3, 16, 16, generator=generator), owner=1)
    y = session.share(torch.arange(BATCH) % 10, owner=1)
    train(model, x, y, steps)
    weights = session.reveal(nn.utils.parameters_to_vector(model.parameters()).detach())
    return weights, session.sealed_memory


def run(main, **settings):
    return tacit.run(main, parties=2, protocol="enclave", **settings)


@pytest.fixture
def threads(monkeypatch):
    """Memories with threads that move chunks, however few cores there are."""
    monkeypatch.setattr(sealed_memory, "num_transfer_threads", lambda: 2)


@pytest.mark.parametrize(
    ("outsourcing", "limit"), [("three-server", LIMIT), ("two-server", LIMIT), ("none", LIMIT // 2)]
)
def test_the_weights_are_those_without_a_limit(outsourcing, limit, threads):
    counted, before = [], {*threading.enumerate()}

    def main(session):
        weights, memory = learnt(session)
        if session.is_enclave:
            counted.append(memory)
        return weights

    wanted, found = (run(main, outsourcing=outsourcing, memory_limit=m) for m in (None, limit))
    assert torch.equal(found[0], found[1])
    if outsourcing == "none":  # sums over rows are added up piece by piece
        assert (wanted[0] - found[0]).abs().max() < 1e-5
    else:
        assert torch.equal(wanted[0], found[0])
    assert counted[0] is None
    assert counted[1].peak <= counted[1].limit < limit
    assert counted[1].evicted
    assert counted[1].bytes_opened
    assert not [one for one in {*threading.enumerate()} - before if "chunks" in one.name]


def test_two_enclaves_have_a_memory_each(monkeypatch):
    seal_everything_always(monkeypatch)
    for found, wanted in run(trained, enclaves=2, memory_limit=LIMIT):
        assert (found - wanted).abs().max() < 1e-4


def test_inputs_and_results_that_are_larger_than_the_limit():
    def main(session):
        x = session.share(torch.arange(2_000_000.0), owner=1)
        return session.reveal(x), session.reveal(x[1_000_000:].sum(), to=0)

    (found, total), (other, nothing) = run(main, memory_limit=1 << 23)
    assert torch.equal(found, torch.arange(2_000_000.0))
    assert torch.equal(other, found)
    assert total == found[1_000_000:].sum()
    assert nothing is None


def test_what_does_not_fit_is_refused_by_operator():
    def main(session):
        x = session.share(torch.rand(300_000), owner=0)
        return x.sort()

    with pytest.raises(PartyFailed, match="memory_limit leaves 917504") as failed:
        run(main, memory_limit=1 << 20)
    cause = failed.value.__cause__
    assert isinstance(cause, OutOfMemory)
    assert "aten.sort" in str(cause)


# What the host may do during training ------------------------------------------------------------


def changed(storage, slot, data):
    """One bit of a sealed chunk."""
    return bytes([data[0] ^ 1]) + bytes(data[1:])


def rolled_back(storage, slot, data):
    """What the slot held before."""
    return storage.first.setdefault(slot, bytes(data))


def exchanged(storage, slot, data):
    """A chunk of another place."""
    return storage.first.setdefault(-len(data), bytes(data))


@pytest.mark.parametrize("attack", [changed, rolled_back, exchanged])
def test_an_attacked_chunk_ends_the_training(attack, monkeypatch, threads):
    monkeypatch.setattr(FileStorage, "first", {}, raising=False)
    write = FileStorage.write

    def attacked(self, slot, data):
        write(self, slot, memoryview(attack(self, slot, data)))

    monkeypatch.setattr(FileStorage, "write", attacked)
    with pytest.raises(PartyFailed, match=r"tensor \d+ of .*, chunk \d+") as failed:
        run(learnt, outsourcing="none", memory_limit=LIMIT // 2)
    assert isinstance(failed.value.__cause__, SealedChunkRejected)


def test_a_full_disk_ends_the_training(monkeypatch):
    def full(self, slot, data):
        raise OSError(errno.ENOSPC, "here")

    monkeypatch.setattr(FileStorage, "write", full)
    with pytest.raises(PartyFailed, match="it cannot be written: No space left") as failed:
        run(learnt, outsourcing="none", memory_limit=LIMIT // 2)
    assert isinstance(failed.value.__cause__, SealedChunkRejected)
