"""A difference between parties is found wherever it is, and told in few words, to all of them."""

import json
from dataclasses import asdict
from threading import Barrier, Event

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import CheckpointRejected, ConfigError, DataRejected, Error, HandshakeMismatch
from tacit.nn import checkpoint
from tacit.nn.checkpoint_agreement import Answer, agree_on_saved
from tacit.transport.consensus import agree, all_gather


def differ(session, folder):
    agree(session.mesh, {"settings": str(session.rank)}, topic="save")


def start_different_jobs(session, folder):
    agree(session.mesh, {"program": str(session.rank)}, error=HandshakeMismatch)


def load_what_is_not_there(session, folder):
    session.load(folder / "none.csv", owner=1)


def load_no_checkpoint(session, folder):
    checkpoint.load(session, folder, nn.Linear(2, 1), key=b"k" * 32)


def save_over_a_file(session, folder):
    model = session.share(nn.Linear(2, 1), owner=0)
    checkpoint.save(session, folder / "file", model, key=b"k" * 32)


def train_in_a_file(session, folder):
    session.training(session.share(nn.Linear(2, 1), owner=0), folder=folder / "file")


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (differ, ConfigError),
        (start_different_jobs, HandshakeMismatch),
        (load_what_is_not_there, DataRejected),
        (load_no_checkpoint, CheckpointRejected),
        (save_over_a_file, CheckpointRejected),
        (train_in_a_file, CheckpointRejected),
    ],
)
def test_nobody_ends_the_run_before_all_know_why(action, kind, tmp_path):
    """Party 0 hears of party 2 long before party 1 does, and leaves with its error at once."""
    (tmp_path / "file").touch()
    raised = {}
    somebody_left = Event()

    def main(session):
        if session.rank == 2:
            link = session.mesh._channels[1]
            send = link.send

            def send_late(*message):
                somebody_left.wait(0.2)
                return send(*message)

            link.send = send_late
        try:
            action(session, tmp_path)
        except Error as error:
            raised[session.rank] = error
            somebody_left.set()
            raise

    with pytest.raises(Error):
        tacit.run(main)
    assert [type(raised.get(rank)) for rank in range(3)] == [kind] * 3, raised


def test_an_error_stays_if_another_party_was_told_otherwise(tmp_path):
    """Party 1 refuses its checkpoint to party 0 alone; party 2 goes on to what comes next."""
    own = Answer("", False, "0" * 32, 0, "three parts", 3)
    refused, fine = (json.dumps(asdict(own) | {"refusal": x}).encode() for x in ("no", ""))
    answered = Barrier(2)  # party 0 ends the run when it gets what party 2 sends next

    def main(session):
        if session.rank == 0:
            with pytest.raises(CheckpointRejected, match="file of party 1: no"):
                agree_on_saved(session.numbers, own, None, tmp_path)
            return
        if session.rank == 1:
            session.mesh.exchange_bytes({0: refused, 2: fine}, [0, 2])
            answered.wait()
        else:
            all_gather(session.mesh, fine)
            answered.wait()
            session.mesh.exchange({0: [torch.ones(2)]}, {})
        session.mesh._channels[0].last_word(seconds=30)

    tacit.run(main)
