"""A training breaks off at one party or at all, and goes on as if it had not."""

import csv
import errno
import logging
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
import torch
from tests.runtime.trainings import EVERY, ROWS, TOTAL, insecure_fixed_masks, network, train
from torch import nn

import tacit
from tacit.errors import CheckpointRejected, ConfigError, PartyFailed, RevealForbidden
from tacit.nn.checkpoint_file import checkpoint_file

PARTIES = 3
ROOM = 2  # pages on a full disk: for the numbers, not for a checkpoint


def folders(root: Path, rank: int = 0) -> list[str]:
    return sorted(path.name for path in (root / f"party{rank}").glob("step-*"))


def file_of(root: Path, step: int, rank: int) -> Path:
    return checkpoint_file(root / f"party{rank}" / f"step-{step:08}", rank)


def rows_of(root: Path, rank: int = 0) -> list[dict[str, str]]:
    with (root / f"party{rank}" / "scalars.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def damage(path: Path, place: float = 0.9) -> None:
    raw = bytearray(path.read_bytes())
    raw[int(len(raw) * place)] ^= 1
    path.write_bytes(raw)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> list[torch.Tensor]:
    """What the training gives with fixed masks, and checkpoints at the same steps."""
    with insecure_fixed_masks():
        return tacit.run(train, folder=tmp_path_factory.mktemp("whole"))[0]


def assert_same(got: list[torch.Tensor], want: list[torch.Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.full(
    "test_the_newest_that_all_have resumes; tests/runtime/test_run.py kills a process"
)
@pytest.mark.parametrize(
    ("parties", "where", "step", "newest"),
    [
        pytest.param([0, 1, 2], "now", 4, 4, id="all"),
        pytest.param([2], "put_in_place", 3, 2, id="one that has not renamed its file"),
    ],
)
def test_killed_processes_resume_to_the_same_model(
    tmp_path, uninterrupted, parties, where, step, newest
):
    """SIGKILL in a step or in the checkpoint after it; then from the newest that all have."""
    run = {"folder": tmp_path, "transport": "processes", "deadline": 120.0, "fixed": True}
    with pytest.raises(PartyFailed, match="SIGKILL") as caught:
        tacit.run(train, crash=(parties, where, step), **run)
    assert caught.value.party in parties
    complete = [{p.parent for p in tmp_path.glob(f"party{r}/*/party-*")} for r in range(PARTIES)]
    common = set.intersection(*({folder.name for folder in own} for own in complete))
    assert max(common) == f"step-{newest:08}"
    for got in tacit.run(train, resume=True, **run):
        assert_same(got, uninterrupted)
    assert [int(row["step"]) for row in rows_of(tmp_path)] == list(range(TOTAL))
    assert len(folders(tmp_path)) == 2
    assert not list(tmp_path.rglob(".*"))


def test_with_true_masks_a_resumed_training_is_as_good(tmp_path, uninterrupted):
    tacit.run(train, total=3, folder=tmp_path)
    for a, b in zip(tacit.run(train, folder=tmp_path, resume=True)[2], uninterrupted, strict=True):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=0)


@pytest.mark.parametrize("keep", [1, 3])
def test_the_last_ones_are_kept(tmp_path, keep):
    tacit.run(train, total=8, keep=keep, folder=tmp_path)
    for rank in range(PARTIES):
        assert folders(tmp_path, rank) == [f"step-{s:08}" for s in (2, 4, 6, 8)[-keep:]]
        assert file_of(tmp_path, 8, rank).stat().st_mode & 0o077 == 0


def test_the_newest_that_all_have(tmp_path, uninterrupted):
    """Party 1 never got its newest one, and party 2 lost its oldest."""
    with insecure_fixed_masks():
        tacit.run(train, keep=3, folder=tmp_path)
        shutil.rmtree(file_of(tmp_path, 6, 1).parent)
        shutil.rmtree(file_of(tmp_path, 2, 2).parent)
        for got in tacit.run(train, keep=3, folder=tmp_path, resume=True):
            assert_same(got, uninterrupted)
    # The one of step 6 that was of no use is gone, once all have another.
    assert folders(tmp_path, 0) == ["step-00000004", "step-00000006-2"]
    assert folders(tmp_path, 1) == ["step-00000004", "step-00000006"]


@pytest.mark.parametrize("place", [0.9, 0.01], ids=["body", "header"])
def test_a_damaged_one_is_left_out_by_all(tmp_path, uninterrupted, caplog, place):
    with insecure_fixed_masks():
        tacit.run(train, folder=tmp_path)
        damage(file_of(tmp_path, 6, 1), place)
        for got in tacit.run(train, folder=tmp_path, resume=True):
            assert_same(got, uninterrupted)
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert any("step" in text and "party 1" in text for text in warned), warned
    assert any("party-1.tacit" in text for text in warned), warned


def test_nothing_in_common_says_what_each_has(tmp_path):
    tacit.run(train, folder=tmp_path)
    shutil.rmtree(file_of(tmp_path, 6, 0).parent)
    shutil.rmtree(file_of(tmp_path, 4, 1).parent)
    damage(file_of(tmp_path, 4, 2), 0.01)
    with pytest.raises(PartyFailed, match="no checkpoint in common") as caught:
        tacit.run(train, folder=tmp_path, resume=True)
    message = str(caught.value)
    assert (
        "party 0 has steps 4; party 1 has steps 6; party 2 has steps 6; one cannot be used: "
        in message
    )
    assert "give another folder" in message


def test_if_all_are_damaged_nothing_is_loaded(tmp_path):
    tacit.run(train, folder=tmp_path)
    damage(file_of(tmp_path, 4, 0))
    damage(file_of(tmp_path, 6, 2))
    with pytest.raises(PartyFailed) as caught:
        tacit.run(train, folder=tmp_path, resume=True)
    assert re.search(r"step 6: (party 2: load|load: the file of party 2)", str(caught.value))
    assert folders(tmp_path) == ["step-00000004", "step-00000006"]


def test_without_any_checkpoint_it_starts_from_the_beginning(tmp_path, caplog):
    tacit.run(train, folder=tmp_path, resume=True, total=2)
    assert "no party has a checkpoint" in caplog.text
    assert [row["step"] for row in rows_of(tmp_path)] == ["0", "1"]


def test_without_resume_nothing_is_overwritten(tmp_path):
    tacit.run(train, folder=tmp_path, total=2)
    before = rows_of(tmp_path)
    with pytest.raises(PartyFailed, match="holds an earlier one") as caught:
        tacit.run(train, folder=tmp_path, total=2)
    assert isinstance(caught.value.__cause__, CheckpointRejected)
    assert rows_of(tmp_path) == before


def test_resume_by_hand_and_a_folder_by_name(tmp_path):
    def main(session, total):
        model = session.share(network(), owner=0)
        training = session.training(model, folder=tmp_path, extra={"epoch": 0}, keep=1)
        done = training.resume()
        drawn = []
        for _ in training.steps(total):
            drawn.append(torch.rand(1).item())
            training.extra["epoch"] += 1
        with pytest.raises(ConfigError, match="has begun"):
            training.resume()
        return done, drawn, training.extra["epoch"]

    first = tacit.run(main, 2, names=["alice", "bob", "carol"])
    second = tacit.run(main, 4, names=["alice", "bob", "carol"])
    assert [result[0] for result in second] == [2, 2, 2]
    assert [result[2] for result in second] == [4, 4, 4]
    drawn = first[0][1] + second[0][1]
    assert len(set(drawn)) == 4
    assert all(a[1] + b[1] == drawn for a, b in zip(first, second, strict=True))
    assert {path.name for path in tmp_path.iterdir()} == {"alice", "bob", "carol"}


def test_batches_use_all_rows_before_they_come_again(tmp_path):
    def main(session):
        training = session.training(session.share(network(), owner=0), folder=tmp_path)
        return [training.batch(ROWS, 4) for _ in training.steps(6)]

    for batches in tacit.run(main):
        for epoch in (batches[:3], batches[3:]):
            assert sorted(torch.cat(epoch).tolist()) == list(range(ROWS))
        assert not torch.equal(torch.cat(batches[:3]), torch.cat(batches[3:]))


def test_minutes_are_those_of_party_0(tmp_path):
    """Its clock alone is past the time, and all save."""

    def main(session):
        training = session.training(
            session.share(network(), owner=0),
            folder=tmp_path,
            minutes=1.0,
            keep=9,
        )
        for step in training.steps(4):
            training._saved_at = time.monotonic() - 3600.0 * (session.rank != 0 or step == 1)
        return folders(tmp_path, session.rank)

    assert tacit.run(main) == [["step-00000002", "step-00000004"]] * PARTIES


def test_settings_must_be_alike_and_make_sense(tmp_path):
    def main(session, settings):
        session.training(session.share(network(), owner=0), folder=tmp_path, **settings)

    def differs(session):
        main(session, {"every": 2 + (session.rank == 2)})

    with pytest.raises(PartyFailed, match=r"training: the parties differ in every: .* party 2"):
        tacit.run(differs)
    for settings, name in (({"every": 0}, "every=0"), ({"minutes": 0}, "minutes=0")):
        with pytest.raises(PartyFailed, match=name):
            tacit.run(main, settings)
    with pytest.raises(PartyFailed, match="keep=0"):
        tacit.run(main, {"keep": 0})
    with pytest.raises(PartyFailed, match="folder is needed"):
        tacit.run(train)


def test_a_plain_module_is_refused_before_the_first_step(tmp_path):
    def main(session):
        return next(session.training(nn.Linear(2, 2), folder=tmp_path).steps(2))

    with pytest.raises(PartyFailed, match="the module is not secret"):
        tacit.run(main)


# Numbers ----------------------------------------------------------------------------------------


def test_numbers_are_noted(tmp_path):
    def main(session):
        training = session.training(session.share(network(), owner=0))
        secret = session.share(torch.tensor(1.5), owner=0)
        for step in training.steps(2):
            training.log(loss=session.reveal(secret), mine=session.reveal(secret, to=1))
            if step:
                training.log(accuracy=0.5)
        return

    tacit.run(main, folder=tmp_path)
    first, second, third = rows_of(tmp_path, 1)
    assert list(first) == ["step", "time", "loss", "mine", "accuracy"]
    assert (first["step"], first["loss"], first["mine"], first["accuracy"]) == (
        ("0", "1.5", "1.5", "")
    )
    assert (third["step"], third["loss"], third["accuracy"]) == ("1", "", "0.5")
    assert float(first["time"]) <= float(second["time"]) <= time.time()
    assert list(rows_of(tmp_path, 0)[0]) == ["step", "time", "loss", "accuracy"]


def test_tensorboard_gets_them_too(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tacit.run(train, total=3, folder=tmp_path)
    tacit.run(train, total=5, folder=tmp_path, resume=True)
    events = EventAccumulator(str(tmp_path / "party0" / "events")).Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(5))
    noted = [float(row["loss"]) for row in rows_of(tmp_path)]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(noted)


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        (lambda s: {"loss": s}, RevealForbidden, "session.reveal"),
        (lambda _: {"loss": torch.ones(2)}, ConfigError, "shape"),
        (lambda _: {"loss": "low"}, ConfigError, "str"),
        (lambda _: {"step": 1.0}, ConfigError, "step"),
    ],
    ids=["secret", "many", "text", "reserved"],
)
def test_what_is_no_public_number_is_refused(tmp_path, values, error, text):
    def main(session):
        training = session.training(session.share(network(), owner=0), folder=tmp_path)
        secret = session.share(torch.tensor(1.5), owner=0)
        with pytest.raises(error, match=text):
            training.log(**values(secret))

    tacit.run(main)


# Disks ------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_disk(tmp_path):
    """A disk of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True
    )
    if done.returncode:
        pytest.skip("mounting a small disk is not permitted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_at_one_party(tmp_path, tiny_disk):
    """Every party says which one; what was saved before is there, and with room it goes on."""
    root, ballast = tmp_path / "all", tiny_disk / "ballast"
    root.mkdir()
    (root / "party1").symlink_to(tiny_disk)
    run = {"folder": root}
    tacit.run(train, total=EVERY, **run)
    page = os.statvfs(tiny_disk).f_bsize
    ballast.write_bytes(bytes((os.statvfs(tiny_disk).f_bavail - ROOM) * page))
    with pytest.raises(PartyFailed) as caught:
        tacit.run(train, resume=True, **run)
    assert "save: party 1 could not write" in str(caught.value)
    assert "No space left on device" in str(caught.value)
    assert file_of(root, EVERY, 1).exists()
    ballast.unlink()
    tacit.run(train, resume=True, **run)
    assert [int(row["step"]) for row in rows_of(root, 1)] == list(range(TOTAL))


@pytest.mark.parametrize("name", ["open", "fsync", "replace"])
def test_a_party_that_cannot_make_its_key_stops_all(tmp_path, monkeypatch, name):
    original = getattr(os, name)

    def full(*args, **kwargs):
        if threading.current_thread().name == "tacit-party-2":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*args, **kwargs)

    monkeypatch.setattr(os, name, full)

    def main(session):
        with pytest.raises(CheckpointRejected) as caught:
            session.training(session.share(network(), owner=0), folder=tmp_path)
        return caught.value.party, str(caught.value)

    for party, message in tacit.run(main):
        assert party == 2
        assert "No space left on device" in message


def test_a_folder_that_cannot_be_read_stops_all(tmp_path):
    (tmp_path / "party1").write_text("no folder")
    with pytest.raises(PartyFailed, match=r"party 1 cannot use its folder: .*exists"):
        tacit.run(train, folder=tmp_path)


def test_a_key_that_is_gone_open_or_changed(tmp_path):
    tacit.run(train, total=2, folder=tmp_path)
    key = tmp_path / "party0" / "checkpoint.key"
    assert key.stat().st_mode & 0o777 == 0o600
    right = key.read_bytes()

    def refused(match):
        with pytest.raises(PartyFailed, match=match) as caught:
            tacit.run(train, folder=tmp_path, resume=True)
        assert right.hex() not in str(caught.value)

    key.chmod(0o644)
    refused("party 0 cannot use its folder: .*chmod 600")
    key.unlink()
    refused(r"checkpoint\.key is missing")
    key.touch(0o600)
    refused("not a key of 32 bytes")
    key.write_bytes(bytes(32))
    refused("the key is wrong")
    key.write_bytes(right)
    tacit.run(train, folder=tmp_path, resume=True)


def test_a_key_that_is_given(tmp_path):
    tacit.run(train, total=2, folder=tmp_path, key=bytes(32))
    assert not (tmp_path / "party0" / "checkpoint.key").exists()
    tacit.run(train, folder=tmp_path, key=bytes(32), resume=True)
