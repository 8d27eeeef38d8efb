"""What peers are told of an error: no path, no value. A canary is planted at one party."""

from __future__ import annotations

import struct

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import CheckpointRejected, Error, PartyFailed, RangeError, told_to_peers
from tacit.nn import encrypted_file, load, save
from tacit.nn.checkpoint_file import checkpoint_file
from tacit.transport.channel import Abort
from tacit.transport.local.memory import MemoryChannel

CANARY = "canary-8d1f5a"
OWNER = 1


@pytest.fixture
def heard(monkeypatch):
    """All bytes that the other parties receive from the owner: messages and last words."""
    received = bytearray()
    send, say = MemoryChannel.send, MemoryChannel.say

    def noted_send(self, kind, operation, digest, tensors):
        if self._party == OWNER:
            for tensor in tensors:
                received.extend(tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes())
        return send(self, kind, operation, digest, tensors)

    def noted_say(self, word):
        if self._party == OWNER and isinstance(word, Abort):
            received.extend(word.reason.encode())
        return say(self, word)

    monkeypatch.setattr(MemoryChannel, "send", noted_send)
    monkeypatch.setattr(MemoryChannel, "say", noted_say)
    return received


def model(session):
    return session.share(nn.Linear(2, 2), owner=0)


def bad_header(folder):
    """A checkpoint of the owner whose header holds the canary."""
    path = checkpoint_file(folder, OWNER)
    raw = path.read_bytes()
    start = len(encrypted_file.MAGIC) + 4
    [size] = struct.unpack_from("<I", raw, start - 4)
    header = raw[start : start + size].replace(b"three parts", CANARY.encode())
    assert CANARY.encode() in header
    path.write_bytes(
        encrypted_file.MAGIC + struct.pack("<I", len(header)) + header + raw[start + size :]
    )


def saved(folder):
    def main(session):
        save(session, folder / session.name, model(session), key=bytes(32))

    tacit.run(main)
    for rank in range(3):
        checkpoint_file(folder / f"party{rank}", rank).rename(checkpoint_file(folder, rank))


def load_header(session, folder):
    load(session, folder, nn.Linear(2, 2), key=bytes(32))


def load_other_module(session, folder):
    load(session, folder, nn.Sequential(nn.Linear(3, 2)), key=bytes(32))


def save_again(session, folder):
    save(session, folder, model(session), key=bytes(32))


def train(session, folder):
    session.training(model(session), folder=folder)


def raise_it(session, folder):
    if session.rank == OWNER:
        raise ValueError(f"{folder} {CANARY}")
    session.reveal(session.share(torch.ones(2), owner=0) * session.share(torch.ones(2), owner=2))


def load_table(session, folder):
    session.load(folder / "table.csv", owner=OWNER)


def load_nothing(session, folder):
    session.load(folder / "missing.csv", owner=OWNER)


def share_infinite(session, folder):
    session.share(torch.tensor([1.0, float("inf"), 31337.25]), owner=OWNER)


def prepared(folder, case):
    if case in (load_header, load_other_module, save_again):
        saved(folder)
    if case is load_header:
        bad_header(folder)
    if case is load_table:
        (folder / "table.csv").write_text(f"a,b\n1,{CANARY}\n")
    if case is train:
        (folder / "party1").write_text("no folder")


@pytest.mark.parametrize(
    "case",
    [
        *(load_header, load_other_module, save_again, train),
        *(raise_it, load_table, load_nothing, share_infinite),
    ],
    ids=lambda case: case.__name__,
)
def test_no_path_and_no_value_reaches_the_others(tmp_path, case, heard):
    folder = tmp_path / CANARY
    folder.mkdir()
    prepared(folder, case)
    heard.clear()
    errors = {}

    def main(session):
        try:
            case(session, folder)
        except Error as error:
            errors[session.rank] = error
            raise

    with pytest.raises(PartyFailed):
        tacit.run(main)
    assert heard
    assert not [text for text in (CANARY, str(tmp_path), "31337") if text.encode() in heard]
    for rank, error in errors.items():
        if rank != OWNER and case not in (save_again, train, load_other_module):
            assert CANARY not in str(error)  # in the others it names the party's own file


def test_a_rejected_checkpoint_of_a_training_is_named_at_its_owner_only(tmp_path, heard):
    folder = tmp_path / CANARY

    def main(session):
        training = session.training(model(session), folder=folder)
        for _ in training.steps(1):
            pass

    tacit.run(main)
    [step] = (folder / "party1").glob("step-*")
    renamed = step.rename(step.with_name(f"step-{CANARY}"))
    bad_header(renamed)
    heard.clear()
    found = {}

    def resumed(session):
        with pytest.raises(CheckpointRejected) as caught:
            session.training(model(session), folder=folder).resume()
        found[session.rank] = str(caught.value)

    tacit.run(resumed)
    assert CANARY.encode() not in heard
    assert f"step-{CANARY}" in found[OWNER]
    for rank in (0, 2):
        assert CANARY not in found[rank]
        assert "saved with other settings" in found[rank]


def test_the_words_of_the_system_and_the_type_are_all_that_is_told():
    assert (
        told_to_peers(FileNotFoundError(2, f"no {CANARY}", CANARY)) == "No such file or directory"
    )
    assert told_to_peers(ValueError(CANARY)) == "ValueError"
    assert told_to_peers(RangeError(CANARY)) == "RangeError"
    assert told_to_peers(CheckpointRejected(CANARY, told="it was cut short")) == "it was cut short"
