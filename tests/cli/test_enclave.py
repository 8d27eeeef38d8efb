"""`tacit enclave`, `tacit worker` and `tacit run`, as a host, workers and owners start them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.shell import end, start, tacit
from tests.runtime.party_files import write_enclave, write_parties

import tacit as tacit_package
from tacit.config import VISIBLE_WEIGHTS
from tacit.enclave.attestation.builds import measure_build, read_build
from tacit.runtime.deploy.party_file import read_party_file

JOB = """
import torch
from torch import nn

def main(session, scale="1"):
    print("begun")
    torch.manual_seed(1)
    model = session.share(nn.Linear(3, 2), owner="alice")
    own = torch.ones(4, 3) if session.name == "bob" else None
    x = session.share(own, owner="bob", shape=(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    return session.reveal(loss.detach() * float(scale), to="bob")
"""

TRAINING = """
import torch
from torch import nn

def main(session, total):
    torch.manual_seed(1)
    model = session.share(nn.Linear(3, 2), owner="alice")
    x = session.share(torch.ones(4, 3), owner="bob")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    training = session.training(model, optimizer, every=2)
    for _ in training.steps(int(total)):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        training.log(loss=session.reveal(loss.detach()))
    return training.step
"""
COMMON = ("--parties", "parties.toml")
SIMULATED = "--allow-simulated"
OWNERS = ("alice", "bob")
WORKERS = ("wanda", "will", "wim")
TWO_SERVER = 'outsourcing = "two-server"\ndeadline = 5.0\n'
ALONE = 'outsourcing = "none"\n'


def command(name, *job, options=()):
    """The command of a member or a worker; workers get no job."""
    if name in WORKERS:
        return ("worker", "--worker", name, *COMMON)
    kind = ("run", "--party", name) if name in OWNERS else ("enclave", "--enclave", name)
    return (*kind, *COMMON, SIMULATED, *options, "job.py", *(("--", *job) if job else ()))


def start_all(folder, names, *job, text=JOB, options=()):
    (folder / "job.py").write_text(text)
    return {name: start(*command(name, *job, options=options), cwd=folder) for name in names}


def events(folder, name):
    log = (folder / "runs" / f"job-{name}" / "runs.jsonl").read_text()
    return [json.loads(line)["event"] for line in log.splitlines()]


# Runs --------------------------------------------------------------------------------------------


def test_a_run_with_an_enclave_and_two_workers(tmp_path):
    write_enclave(tmp_path, TWO_SERVER, workers=WORKERS[:2])
    started = start_all(tmp_path, (*OWNERS, "eve", *WORKERS[:2]), "3")
    done = {name: end(child) for name, child in started.items()}
    assert {one.code for one in done.values()} == {0}, done
    assert "result at bob" in done["bob"].out
    assert "result at" not in done["alice"].out
    assert "begun" in done["alice"].out
    assert "begun" not in done["eve"].out, "what an enclave prints is dropped"
    assert "eve (here)" in done["eve"].out
    assert "worker 1: will on cpu, sees masked numbers" in done["alice"].out
    assert "the enclave has ended" in done["wanda"].out
    for name in (*OWNERS, "eve"):
        assert "simulated" in done[name].err
        assert events(tmp_path, name) == ["started", "ended"]


@pytest.mark.full("two enclaves; test_a_run_with_an_enclave_and_two_workers has one")
def test_two_enclaves_and_three_workers(tmp_path):
    write_enclave(tmp_path, enclaves=("eve", "eva"), workers=WORKERS)
    started = start_all(tmp_path, (*OWNERS, "eva", "eve", *WORKERS))
    done = {name: end(child) for name, child in started.items()}
    assert {one.code for one in done.values()} == {0}, done
    assert "result at bob" in done["bob"].out
    assert "for eva" in done["will"].out
    assert "for eve" in done["wim"].out


@pytest.mark.full("on machines of their own; tests/enclave/test_resumed.py resumes a local run")
def test_a_training_goes_on_after_its_enclave_was_killed(tmp_path):
    write_enclave(tmp_path, ALONE + "deadline = 5.0\n")
    started = start_all(tmp_path, (*OWNERS, "eve"), str(10**6), text=TRAINING)
    folder = tmp_path / "runs" / "job-eve"
    wait_until(lambda: (folder / "eve" / "step-00000004").exists(), started)
    [enclave] = children_of(started["eve"].pid)
    os.kill(enclave, signal.SIGKILL)
    done = {name: end(child) for name, child in started.items()}
    assert all("the enclave (eve)" in done[name].err for name in OWNERS), done
    assert [done[name].code for name in OWNERS] == [3, 3]
    assert "killed by SIGKILL" in done["eve"].err
    started = start_all(tmp_path, (*OWNERS, "eve"), "40", text=TRAINING, options=("--resume",))
    done = {name: end(child) for name, child in started.items()}
    assert {one.code for one in done.values()} == {0}, done
    rows = (tmp_path / "runs" / "job-bob" / "scalars.csv").read_text().splitlines()
    assert len(rows) == 41
    assert not [*folder.rglob("*.csv")], "what was revealed to the parties lies with the host"


def wait_until(holds, started):
    until = time.monotonic() + 300
    while not holds():
        assert {child.poll() for child in started.values()} == {None}
        assert time.monotonic() < until
        time.sleep(0.05)


def children_of(pid):
    """The enclave is the one that the host has not forked but started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found if b"enclave" in Path(f"/proc/{one}/cmdline").read_bytes()]


@pytest.mark.full("tests/enclave/test_processes.py kills the worker of a local run")
def test_a_killed_worker_is_named_to_all(tmp_path):
    write_enclave(tmp_path, TWO_SERVER, workers=WORKERS[:2])
    everybody = (*OWNERS, "eve", *WORKERS[:2])
    started = start_all(tmp_path, everybody, str(10**6), text=TRAINING)
    wait_until((tmp_path / "runs" / "job-eve" / "eve" / "step-00000002").exists, started)
    started["will"].kill()
    done = {name: end(child) for name, child in started.items()}
    for name in OWNERS:
        assert done[name].code == 3
        assert "the enclave (eve) ended the run" in done[name].err
        assert "WorkerFailed: worker 1" in done[name].err
    assert "worker 1 does not answer" in done["eve"].err
    assert done["wanda"].code == 3, done["wanda"]


@pytest.mark.full("a minute of waiting; the others of this file")
def test_a_worker_that_is_not_started_is_named_to_all(tmp_path):
    write_enclave(tmp_path, TWO_SERVER + "connect_deadline = 40.0\n", workers=WORKERS[:2])
    started = start_all(tmp_path, (*OWNERS, "eve", "wanda"))
    done = {name: end(child) for name, child in started.items()}
    for name in OWNERS:
        assert "the enclave (eve) ended the run" in done[name].err, done
        assert "WorkerFailed: worker 1" in done[name].err


@pytest.mark.full("a run; tests/enclave/test_builds.py has a host that answers with a quote")
def test_an_owner_with_other_kernels_trusts_a_build(tmp_path):
    """Alice's compiled kernels have one byte more than those of bob and of the host."""
    write_enclave(tmp_path, ALONE)
    own = tmp_path / "alice"
    for folder in tacit_package.__path__:
        shutil.copytree(folder, own / "tacit", dirs_exist_ok=True)
    kernels = next(own.rglob("native_*.so"))
    kernels.write_bytes(kernels.read_bytes() + b"\0")
    assert tacit("measure", "--export", "host.build", cwd=tmp_path).code == 0
    started = start_all(tmp_path, ("bob", "eve"))
    program = [sys.executable, "-m", "tacit"]
    env = {**os.environ, "PYTHONPATH": str(own)}
    told = [*program, *command("alice", options=("--trusted-build", "host.build"))]
    alice = subprocess.run(
        told, cwd=tmp_path, env=env, capture_output=True, timeout=300, check=False
    )
    assert alice.returncode == 0, alice
    done = {name: end(child) for name, child in started.items()}
    assert {one.code for one in done.values()} == {0}, done
    assert "result at bob" in done["bob"].out


# What is refused ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hosted(tmp_path_factory):
    """The folder of an enclave that is ready, and waits for its parties."""
    folder = tmp_path_factory.mktemp("hosted")
    write_enclave(folder, ALONE)
    started = start_all(folder, ("eve",))
    yield folder
    started["eve"].kill()
    end(started["eve"])


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"flag": False}, "the quote is simulated: it is signed by a public test key and proves"),
        ({"job": JOB + "\n"}, "differs in setting file job.py of the program"),
        ({"head": "patience = 60.0\n"}, "patience of the party file"),
    ],
    ids=["simulated", "job", "party file"],
)
def test_an_owner_refuses_an_enclave(hosted, tmp_path, change, refused):
    """What it expects follows from its own flag, job and party file."""
    file = change.get("head", "") + (hosted / "parties.toml").read_text()
    (tmp_path / "parties.toml").write_text(file)
    (tmp_path / "job.py").write_text(change.get("job", JOB))
    (tmp_path / "alice.key").touch(mode=0o600)
    (tmp_path / "alice.key").write_bytes((hosted / "alice.key").read_bytes())
    told = [one for one in command("alice") if one != SIMULATED or change.get("flag", True)]
    done = end(start(*told, cwd=tmp_path))
    assert done.code == 4, done
    assert refused in done.err


def test_a_host_that_is_not_there_is_named(tmp_path):
    write_enclave(tmp_path, ALONE + "connect_deadline = 0.5\n")
    (tmp_path / "job.py").write_text(JOB)
    done = end(start(*command("alice"), cwd=tmp_path))
    assert done.code == 3
    assert "the host of the enclave at 127.0.0.1:" in done.err
    assert "gave no quote within 0.5 s" in done.err


def test_a_simulated_enclave_has_to_be_asked_for(tmp_path):
    write_enclave(tmp_path, ALONE)
    (tmp_path / "job.py").write_text(JOB)
    done = tacit("enclave", *COMMON, "job.py", cwd=tmp_path)
    assert done.code == 2
    assert "its quote proves nothing" in done.err
    assert "--allow-simulated" in done.err
    done = tacit(*LOCAL, "--transport", "processes", "job.py", cwd=tmp_path)
    assert done.code == 2
    assert "its quote proves nothing" in done.err


def test_each_command_is_for_its_member(tmp_path):
    write_enclave(tmp_path, ALONE)
    (tmp_path / "job.py").write_text(JOB)
    asked = {
        ("run", "--party", "eve", *COMMON, "job.py"): "party='eve' is the enclave",
        ("enclave", "--enclave", "alice", *COMMON, "job.py"): "the party file has eve",
        ("worker", "--worker", "wanda", *COMMON): "the party file has no workers",
    }
    for arguments, told in asked.items():
        done = tacit(*arguments, cwd=tmp_path)
        assert (done.code, told in done.err) == (2, True), done
    write_parties(tmp_path)
    done = tacit("enclave", *COMMON, "job.py", cwd=tmp_path)
    assert (done.code, "there is no enclave" in done.err) == (2, True), done


# Files and other commands ------------------------------------------------------------------------


def test_the_installation_is_measured(tmp_path):
    done = tacit("measure", "--json", "--export", tmp_path / "here.build")
    assert done.code == 0, done
    build = read_build(tmp_path / "here.build")
    assert done.json["measurement"] == build.digest().hex()
    assert tacit("measure", "--export", tmp_path / "absent" / "file").code == 2
    write_enclave(tmp_path, ALONE)
    (tmp_path / "job.py").write_text(JOB)
    told = command("alice", options=("--trusted-build", "absent.build"))
    assert (tacit(*told, cwd=tmp_path).code, build) == (2, measure_build())


LOCAL = ("local", "--protocol", "enclave", "--names", "alice,bob")


def test_blocks_make_a_party_file(tmp_path):
    texts = ['protocol = "enclave"\noutsourcing = "two-server"\n']
    addresses = {"alice": [], "eve": ["--enclave"], "wanda": ["--worker"], "will": ["--worker"]}
    for i, (name, kind) in enumerate(addresses.items()):
        address = [] if "--worker" in kind else ["--address", f"127.0.0.1:{7000 + i}"]
        done = tacit("party", "init", name, *kind, *address, cwd=tmp_path)
        assert done.code == 0, done
        texts.append(done.out)
    assert not (tmp_path / "eve.key").exists()
    path = tmp_path / "parties.toml"
    path.write_text("".join(texts))
    file = read_party_file(path)
    assert (file.names, [one.name for one in file.workers]) == (("alice", "eve"), ["wanda", "will"])
    assert file.certificates.keys() == {"alice", "wanda", "will"}
    for wrong in (["--worker", "--address", "h:1"], ["--enclave"], ["--enclave", "--worker"]):
        assert tacit("party", "init", "other", *wrong, cwd=tmp_path).code == 2


def test_the_doctor_says_what_an_enclave_is_worth(tmp_path):
    path = write_enclave(tmp_path, 'outsourcing = "two-server"', workers=WORKERS[:2])
    done = tacit("doctor", "--parties", path)
    assert done.code == 0, done
    assert "simulated" in done.out
    assert "no two workers may pool what they see: wanda, will" in done.out
    assert "eve computes on every value in plain" in done.out
    assert done.out.count("certificate valid until") == 4


def test_the_doctor_says_that_a_worker_sees_weights(tmp_path):
    settings = f'outsourcing = "{VISIBLE_WEIGHTS}"'
    path = write_enclave(tmp_path, settings, workers=WORKERS[:1])
    done = tacit("doctor", "--parties", path)
    assert done.code == 0, done
    assert "wanda: shapes, masked numbers, and the parameters of modules" in " ".join(
        done.out.split()
    )


@pytest.mark.full("tests/cli/test_party_check.py; here without an enclave, which is not running")
def test_the_parties_check_their_links(tmp_path):
    write_enclave(tmp_path, ALONE)
    names = {name: ("party", "check", "--party", name, *COMMON, "--json") for name in OWNERS}
    started = {name: start(*told, cwd=tmp_path) for name, told in names.items()}
    for name, one in {name: end(child) for name, child in started.items()}.items():
        assert one.code == 0, one
        assert one.json["links"].keys() == {*OWNERS} - {name}


def test_all_on_this_machine(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    done = tacit(*LOCAL, "job.py", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "alice, bob, enclave as threads" in done.out


@pytest.mark.full("in processes; test_all_on_this_machine has threads")
def test_all_as_processes_of_this_machine(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    options = ("--transport", "processes", SIMULATED, "--outsourcing", "one-worker")
    done = end(start(*LOCAL, *options, "job.py", cwd=tmp_path))
    assert done.code == 0, done.err
    assert "alice, bob, enclave as processes" in done.out
    assert "result at bob" in done.out
