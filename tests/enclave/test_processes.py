"""A run whose parties, workers and enclaves are processes, and whose host is the caller."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.enclave import process_host, process_programs
from tests.enclave.memory import copies_in
from tests.enclave.process_programs import (
    endless,
    failing,
    limited,
    serve_lying_worker,
    training,
    wait_for,
)
from tests.enclave.started import recorded
from tests.enclave.test_sessions import SETTINGS
from tests.forked import Forked

import tacit
from tacit.config import Config
from tacit.enclave.attestation import Manifest
from tacit.enclave.configuration import MAX_DATA_BYTES, EnclaveConfig
from tacit.enclave.trusted.measured_modules import MeasuredModules
from tacit.errors import AttestationRejected, ConfigError, PartyFailed
from tacit.runtime.launch import enclave_host
from tacit.runtime.launch.enclave_task import EnclaveTask
from tacit.runtime.launch.endpoint import Endpoint
from tacit.runtime.launch.user_modules import user_modules
from tacit.transport import Limits

PROCESSES = {"protocol": "enclave", "transport": "processes", "allow_simulated": True}
OWN = Endpoint(("127.0.0.1", 1), b"certificate of party 0")
TASK = EnclaveTask(
    config=Config(protocol="enclave"),
    session_id=bytes(16),
    limits=Limits(deadline=5.0),
    parties=(OWN, Endpoint(("127.0.0.1", 2), b"certificate of party 1")),
    workers=(b"worker", b"another"),
    enclaves=(("127.0.0.1", 3),),
    threads=1,
    allow_simulated=True,
    program=b"packed",
    modules={process_programs.__name__: process_programs.__file__},
)


# A whole run -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A host in the midst of a training: its folder, and the numbers of its processes."""
    folder = tmp_path_factory.mktemp("host")
    host = Forked([process_host.__file__, "planted", folder])
    try:
        for name in ("0.hex", "1.hex"):
            wait_for(folder / name)
        yield folder, json.loads((folder / "started.json").read_text())
    finally:
        host.kill()
        host.communicate(timeout=60)


def test_plaintext_is_in_the_enclave_alone(run):
    """The enclave scans itself; the parties show that a scan from outside finds a pattern."""
    folder, pids = run
    patterns = [bytes.fromhex((folder / f"{i}.hex").read_text())[::-1] for i in range(2)]
    assert all(len(one) == 64 for one in patterns)
    assert copies_in(pids["host"], *patterns) == [0, 0]
    if os.geteuid() == 0:  # the others let nobody else read their memory
        for worker in range(2):
            assert copies_in(pids[f"tacit-worker-{worker}"], *patterns) == [0, 0]
        for rank, copies in enumerate(
            copies_in(pids[f"tacit-party-{i}"], *patterns) for i in (0, 1)
        ):
            assert copies[rank] > 0
            assert copies[1 - rank] == 0
        assert min(copies_in(pids["tacit-enclave-0"], *patterns)) > 0
    (folder / "scanned").touch()
    wait_for(folder / "ended.json")
    ended = json.loads((folder / "ended.json").read_text())
    assert ended == {"results": [[], []], "trusted": []}, "what is trusted was imported outside"
    wait_until_gone(pids)


def wait_until_gone(pids):
    until = time.monotonic() + 60
    while left := [name for name, pid in pids.items() if is_running(pid)]:
        assert time.monotonic() < until, f"left behind: {left}"
        time.sleep(0.05)


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# test_a_limited_memory_gives_the_weights_of_threads has "one-worker".
IN_PROCESSES = [one for one in SETTINGS if one["outsourcing"] != "one-worker"]


@pytest.mark.full("the modes in processes; test_plaintext_is_in_the_enclave_alone runs one")
@pytest.mark.parametrize("settings", IN_PROCESSES, ids=str)
def test_training_is_that_of_torch(settings):
    with recorded() as pids:
        results = tacit.run(training, parties=2, **PROCESSES, **settings)
    for difference, trusted in results:
        assert difference < 1e-4
        assert trusted == []
    assert len(pids) == 2 + tacit.config.OUTSOURCING[settings["outsourcing"]] + settings.get(
        "enclaves", 1
    )
    assert not any(map(is_running, pids.values()))


@pytest.mark.full("in processes; test_limited_sessions.py has threads")
def test_a_limited_memory_gives_the_weights_of_threads():
    settings = {"parties": 1, "outsourcing": "one-worker", "memory_limit": 5 << 20}
    [found] = tacit.run(limited, **settings, **PROCESSES)
    [wanted] = tacit.run(limited, **settings, protocol="enclave")
    assert torch.equal(found, wanted)


# What is refused ---------------------------------------------------------------------------------


def test_a_simulated_enclave_has_to_be_asked_for():
    with pytest.raises(ConfigError, match=r"its quote proves nothing.*allow_simulated=True"):
        tacit.run(training, parties=2, protocol="enclave", transport="processes")


def test_links_that_a_host_relays_have_no_latency_to_set():
    with pytest.raises(ConfigError, match="enclave"):
        tacit.run(training, parties=2, network="wan", **PROCESSES)


def test_data_that_an_enclave_does_not_take():
    with pytest.raises(ConfigError, match=f"{MAX_DATA_BYTES}"):
        EnclaveConfig(settings={}, program="x", function="f", data=bytes(MAX_DATA_BYTES + 1))


def test_an_enclave_reads_the_task_that_its_host_writes():
    config = TASK.configuration(0)
    assert EnclaveTask.read(config.settings, config.data) == (replace(TASK, modules={}), 0)


CHANGES = {
    "setting config": {"config": Config(protocol="enclave", reveals=(1,))},
    "setting session": {"session_id": bytes(15) + b"1"},
    "setting main and its arguments": {"program": b"other"},
    "module json": {"modules": {**TASK.modules, "json": process_host.__file__}},
    "module unknown": {"modules": {**TASK.modules, "unknown": process_host.__file__}},
    "setting certificate of party 0": {"parties": (OWN._replace(certificate=b"x"), OWN)},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_party_expects_what_it_knows_itself(name):
    """Whatever its host tells it of these, and starts the enclave with."""
    changed = replace(TASK, **CHANGES[name])
    expected = changed.as_expected_by(
        0, OWN, config=TASK.config, session_id=TASK.session_id, program=TASK.program
    )
    differing = changed.configuration(0).measure().differences(expected.configuration(0).measure())
    assert differing == [name]


@pytest.mark.full("a host that cheats; test_a_party_expects_what_it_knows_itself has each change")
@pytest.mark.parametrize("name", ["setting config", "setting main and its arguments"])
def test_parties_refuse_an_enclave_with_other_settings(name, monkeypatch):
    start = enclave_host._start_enclaves

    def cheating(task, ports, ending):
        program = task.program + b"\0"
        changes = {"program": program} if "main" in name else CHANGES[name]
        return start(replace(task, **changes), ports, ending)

    monkeypatch.setattr(enclave_host, "_start_enclaves", cheating)
    with recorded() as pids, pytest.raises(PartyFailed, match=f"differs in {name}") as failed:
        tacit.run(training, parties=2, outsourcing="none", **PROCESSES)
    assert failed.value.kind == "AttestationRejected"
    assert failed.value.party in (0, 1)
    assert not any(map(is_running, pids.values()))


# The modules of a program ------------------------------------------------------------------------


def test_the_modules_of_a_program_are_those_of_the_user():
    found = user_modules(b"")
    assert found[process_programs.__name__] == process_programs.__file__
    assert not [name for name in found if name.split(".")[0] in ("tacit", "torch", "json", "numpy")]
    assert "__main__" not in found


def test_a_module_is_loaded_as_it_was_measured_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.meta_path", [*sys.meta_path])
    file = tmp_path / "elsewhere.py"
    file.write_text("value = 1\n")
    modules = {"measured_folder.one": str(file), "measured_folder.two": str(file)}
    config = EnclaveConfig(settings={}, program="tacit.x", function="f", modules=modules)
    MeasuredModules(modules, Manifest(config.measure().entries)).install()
    assert __import__("measured_folder.one").one.value == 1
    file.write_text("value = 2\n")
    with pytest.raises(AttestationRejected, match=r"module measured_folder\.two was changed"):
        __import__("measured_folder.two")
    with pytest.raises(ModuleNotFoundError):
        __import__("measured_folder.three")


# How it fails ------------------------------------------------------------------------------------


def ended_by(number, name, tmp_path, **settings):
    """The error of a run in whose midst a process gets a signal; nothing is left behind."""
    with recorded() as pids:

        def end():
            wait_for(tmp_path / "begun")
            os.kill(pids[name], number)

        thread = threading.Thread(target=end)
        thread.start()
        with pytest.raises(PartyFailed) as failed:
            tacit.run(endless, str(tmp_path), parties=1, **PROCESSES, **settings)
        thread.join()
    assert not any(map(is_running, pids.values()))
    return failed.value


@pytest.mark.full("a killed worker; test_sessions.py names one that lies, in threads")
def test_a_killed_worker_is_named(tmp_path):
    error = ended_by(signal.SIGKILL, "tacit-worker-1", tmp_path, outsourcing="two-server")
    assert error.kind == "WorkerFailed"
    assert "enclave failed" in str(error)
    assert "worker 1 does not answer" in str(error)
    assert any("worker 1: its process was killed by SIGKILL" in note for note in error.__notes__)


@pytest.mark.full("the enclave; test_a_killed_worker_is_named ends another process")
def test_a_killed_enclave_is_named(tmp_path):
    error = ended_by(signal.SIGKILL, "tacit-enclave-0", tmp_path, outsourcing="none")
    assert error.party == 1
    assert "enclave failed" in str(error)
    assert "killed by SIGKILL" in str(error)


@pytest.mark.full("a party; test_a_killed_worker_is_named ends another process")
def test_a_killed_party_is_named(tmp_path):
    error = ended_by(signal.SIGKILL, "tacit-party-0", tmp_path, outsourcing="none")
    assert error.party == 0
    assert "killed by SIGKILL" in str(error)


@pytest.mark.full("in processes; test_sessions.py has a lying worker in threads")
def test_a_lying_worker_is_named(monkeypatch):
    monkeypatch.setattr(enclave_host, "serve_worker", serve_lying_worker)
    with pytest.raises(PartyFailed, match="worker 1 answered with a wrong product") as failed:
        tacit.run(training, parties=2, outsourcing="two-server", **PROCESSES)
    assert failed.value.kind == "CheatingDetected"
    assert failed.value.party == 2


@pytest.mark.full("the host's error; test_process.py has the last word of an enclave")
def test_an_error_inside_tells_no_secret():
    with pytest.raises(PartyFailed) as failed:
        tacit.run(failing, parties=1, outsourcing="none", **PROCESSES)
    assert failed.value.party == 1
    assert failed.value.kind == "ValueError"
    assert "secret" not in str(failed.value)


@pytest.mark.full("an interrupt; test_plaintext_is_in_the_enclave_alone looks for what is left")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_its_host(number, tmp_path):
    host = Forked([process_host.__file__, "endless", tmp_path])
    wait_for(tmp_path / "begun")
    host.send_signal(number)
    host.communicate(timeout=60)
    assert host.returncode
    wait_until_gone(json.loads((tmp_path / "started.json").read_text()))
