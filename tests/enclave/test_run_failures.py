"""How a run in processes ends when a worker, the host, a disk or a file fails: named, in time."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from tests.enclave.process_programs import (
    LATE_SECONDS,
    checkpointed,
    endless,
    growing,
    serve_late_worker,
    training,
    wait_for,
)
from tests.enclave.relays import CheatingLink
from tests.enclave.started import recorded
from tests.enclave.test_processes import PROCESSES, is_running

import tacit
from tacit.enclave.host import launcher
from tacit.errors import AttestationRejected, PartyFailed
from tacit.runtime.launch import enclave_host, local_run
from tacit.transport import Limits

DEADLINE = 5.0


@contextmanager
def failing_run(file, harm):
    """Within, `harm` is called with the numbers of all processes once a file is there.

    Yields where PartyFailed is put; nothing is left behind.
    """
    with recorded() as pids:

        def act():
            wait_for(file)
            harm(pids)

        thread = threading.Thread(target=act)
        thread.start()
        with pytest.raises(PartyFailed) as failed:
            yield failed
        thread.join()
    assert not any(map(is_running, pids.values()))


# Workers -----------------------------------------------------------------------------------------


@pytest.mark.full("a frozen process; tests/enclave/test_outsourcing.py has a worker that is silent")
def test_a_frozen_worker_is_named(tmp_path):
    def freeze(pids):
        os.kill(pids["tacit-worker-1"], signal.SIGSTOP)

    with failing_run(tmp_path / "begun", freeze) as failed:
        tacit.run(
            endless,
            str(tmp_path),
            parties=1,
            outsourcing="two-server",
            deadline=DEADLINE,
            **PROCESSES,
        )
    assert failed.value.kind == "WorkerFailed", (str(failed.value), failed.value.__notes__)
    assert "worker 1 does not answer" in str(failed.value)


@pytest.mark.full("a worker that computes for longer than the deadline")
def test_a_late_worker_is_waited_for(monkeypatch):
    monkeypatch.setattr(enclave_host, "serve_worker", serve_late_worker)
    monkeypatch.setenv(LATE_SECONDS, str(2 * DEADLINE))
    settings = {**PROCESSES, "outsourcing": "two-server", "deadline": DEADLINE}
    for difference, _ in tacit.run(training, parties=2, **settings):
        assert difference < 1e-4


@pytest.mark.full("a worker that computes for longer than the patience of all")
def test_a_worker_that_is_later_than_patience_is_named(monkeypatch):
    monkeypatch.setattr(local_run, "Limits", partial(Limits, patience=4 * DEADLINE))
    monkeypatch.setattr(enclave_host, "serve_worker", serve_late_worker)
    monkeypatch.setenv(LATE_SECONDS, "300")
    settings = {**PROCESSES, "outsourcing": "two-server", "deadline": DEADLINE}
    with recorded() as pids, pytest.raises(PartyFailed) as failed:
        tacit.run(training, parties=2, **settings)
    assert failed.value.kind == "WorkerFailed", (str(failed.value), failed.value.__notes__)
    assert "worker 1 does not answer" in str(failed.value)
    assert not any(map(is_running, pids.values()))


# The host ----------------------------------------------------------------------------------------


class Once:
    """Does something to one relayed message, once it is armed."""

    def __init__(self, meddle):
        self.armed, self._meddle, self._kept = threading.Event(), meddle, None

    def __call__(self, _, data):
        if not self.armed.is_set() or len(data) < 200:  # a heartbeat would do as well
            return [data]
        if self._kept is None:
            self._kept = data
            return self._meddle(data)
        kept, self._kept = self._kept, b""
        return [data, kept] if self._meddle is held_back and kept else [data]


def dropped(data):
    return []


def repeated(data):
    return [data, data]


def held_back(data):
    """It follows the next one."""
    return []


@pytest.mark.full("a whole run; tests/enclave/test_relay.py has a mesh, and more ways to meddle")
@pytest.mark.parametrize("meddle", [dropped, repeated, held_back])
def test_a_host_that_meddles_ends_the_run(meddle, tmp_path, monkeypatch):
    """The ends notice it, and to them the one beyond the host is lost; or the enclave does."""
    cheat = Once(meddle)
    monkeypatch.setattr(launcher, "Link", partial(CheatingLink, cheat=cheat))
    with failing_run(tmp_path / "begun", lambda pids: cheat.armed.set()) as failed:
        tacit.run(
            endless,
            str(tmp_path),
            parties=1,
            outsourcing="one-worker",
            deadline=DEADLINE,
            **PROCESSES,
        )
    told = "\n".join([str(failed.value), *failed.value.__notes__])
    noticed = ("the connection with the enclave is lost", "worker 0 does not answer")
    assert any(words in told for words in (*noticed, "of a stream were acknowledged than sent"))


# Disks and files ---------------------------------------------------------------------------------


def fill_disk(pids):
    """From now on no file of the enclave may grow beyond what it has."""
    resource.prlimit(pids["tacit-enclave-0"], resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))


@pytest.mark.full("a process; tests/enclave/test_limited_sessions.py has threads")
def test_a_full_disk_of_sealed_memory_is_named(tmp_path):
    with failing_run(tmp_path / "begun", fill_disk) as failed:
        tacit.run(
            growing,
            str(tmp_path),
            parties=1,
            outsourcing="none",
            memory_limit=1 << 22,
            **PROCESSES,
        )
    assert failed.value.kind == "SealedChunkRejected"
    assert failed.value.party == 1


@pytest.mark.full("an enclave's disk; tests/deployment/test_failures.py has a party's")
def test_a_full_disk_for_checkpoints_is_named(tmp_path):
    def fill(pids):
        resource.prlimit(pids["tacit-enclave-0"], resource.RLIMIT_FSIZE, (6000, 6000))

    with failing_run(tmp_path / "party1" / "step-00000002", fill) as failed:
        tacit.run(checkpointed, 10**6, parties=2, outsourcing="none", folder=tmp_path, **PROCESSES)
    assert failed.value.kind == "CheckpointRejected"
    assert "the enclave could not write its file" in str(failed.value)


def test_a_module_that_changes_by_one_byte_is_refused_by_name(tmp_path, monkeypatch):
    """Between its measurement and the start of the enclave."""
    module = tmp_path / "changing_program.py"
    module.write_text("def main(session):\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    main = import_module("changing_program").main
    begin = launcher._begin

    def changing(link, config, manifest):
        Path(config.modules["changing_program"]).write_text(module.read_text().replace("1", "2"))
        return begin(link, config, manifest)

    monkeypatch.setattr(launcher, "_begin", changing)
    told = "a trusted file was changed after it was measured: module changing_program"
    with recorded() as pids, pytest.raises(AttestationRejected, match=told):
        tacit.run(main, parties=1, outsourcing="none", **PROCESSES)
    assert not any(map(is_running, pids.values()))
    sys.modules.pop("changing_program")
