"""`tacit run`: three parties in three processes, as three organisations would start them."""

import json
import signal
import time

import pytest
from tests.cli.shell import Done, end, start, tacit
from tests.runtime.party_files import NAMES, credentials, write_key, write_parties

from tacit.runtime.deploy.member_blocks import snippet
from tacit.runtime.report import read_report

JOB = """
import torch

def main(session, scale="1"):
    print("begun")
    own = torch.arange(4.0) if session.name == "alice" else None
    x = session.share(own, owner="alice", shape=(4,))
    return session.reveal((x * float(scale)).relu(), to="bob")
"""

ENDLESS = """
import time, torch
from pathlib import Path

def main(session):
    x = session.share(torch.ones(4), owner="alice")
    while True:
        x = x.relu()
        Path(f"{session.name}.begun").touch()
        time.sleep(0.01)
"""

FAILING = """
import torch

def broken(session):
    if session.name == "carol":
        log = session.folder / "runs.jsonl"
        log.unlink()
        log.mkdir()  # nothing can be written to it any more
        raise ValueError("of the job")
    return session.reveal(session.share(torch.ones(4), owner="alice").relu())

def main(session):
    return broken(session)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path


def run_all(folder, *arguments, head="", options=(), jobs=None, **variables) -> dict[str, Done]:
    """How `tacit run` ended at every party; its name stands for {name} in options."""
    write_parties(folder, head)
    jobs = jobs or dict.fromkeys(NAMES, "job.py")
    started = {
        name: start(
            *("run", "--party", name, "--parties", "parties.toml"),
            *(option.format(name=name) for option in options),
            jobs[name],
            *arguments,
            cwd=folder,
            **variables,
        )
        for name in NAMES
    }
    return {name: end(child) for name, child in started.items()}


def encoded(certificate: bytes) -> str:
    """A certificate as the party file has it."""
    return snippet("alice", "127.0.0.1:1", certificate).split("'''")[1]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run(folder):
    done = run_all(folder, "--", "3", options=("--report", "{name}.html"))
    assert [one.code for one in done.values()] == [0, 0, 0], done
    assert "tensor([0., 3., 6., 9.])" in done["bob"].out
    assert "tensor" not in done["alice"].out
    for name in NAMES:
        out = done[name].out
        assert f"{name} (here)" in out
        assert "protocol trio" in out
        assert "rounds" in out
        assert "float32[4] to bob at" in out
        own = folder / "runs" / f"job-{name}"
        begun, ended = lines(own / "runs.jsonl")
        assert (begun["event"], begun["arguments"]) == ("started", ["3"])
        assert (ended["event"], ended["reveals"]) == ("ended", 1)
        [revealed] = lines(own / "reveals.jsonl")
        assert revealed["to"] == ["bob"]
        assert "job.py:8 in main" in revealed["where"]
        report = read_report(folder / f"{name}.html")
        assert (report["title"], report["parties"][0]["name"]) == ("job.py", name)
        assert report["parties"][0]["rounds"] == ended["rounds"]


def test_json_and_a_passphrase(folder):
    secret = credentials("alice", "correct horse")
    write_parties(folder)
    text = (folder / "parties.toml").read_text()
    plain, new = (encoded(one.certificate) for one in (credentials("alice"), secret))
    (folder / "parties.toml").write_text(text.replace(plain, new))
    (folder / "alice.key").unlink()
    write_key(folder, "alice", secret.private_key)
    common = ("--parties", "parties.toml", "--json", "--log", "log", "job.py")
    children = [
        start("run", "--party", name, *common, cwd=folder, TACIT_PASSPHRASE="correct horse")
        for name in NAMES
    ]
    done = dict(zip(NAMES, map(end, children), strict=True))
    assert [one.code for one in done.values()] == [0, 0, 0], done
    assert done["bob"].json["result"] == [0.0, 1.0, 2.0, 3.0]
    assert done["alice"].json["result"] is None
    assert done["alice"].json["bytes_sent"] > 0
    assert "begun" in done["alice"].err  # what the job prints is no part of the document
    assert not any("correct horse" in one.out + one.err for one in done.values())


def test_ctrl_c_at_one_party_ends_all(folder):
    (folder / "job.py").write_text(ENDLESS)
    write_parties(folder)
    children = {
        name: start("run", "--party", name, "--parties", "parties.toml", "job.py", cwd=folder)
        for name in NAMES
    }
    until = time.monotonic() + 120
    while not all((folder / f"{name}.begun").exists() for name in NAMES):
        assert time.monotonic() < until
        time.sleep(0.1)
    children["bob"].send_signal(signal.SIGINT)
    started = time.monotonic()
    done = {name: end(child) for name, child in children.items()}
    assert time.monotonic() - started < 30
    assert {name: one.code for name, one in done.items()} == {"alice": 3, "bob": 130, "carol": 3}
    assert done["bob"].err == "error: interrupted\n"
    for name in ("alice", "carol"):
        assert done[name].err.startswith("error: party 1 (bob) ended the run at ")
        assert "interrupted" in done[name].err
        assert lines(folder / "runs" / f"job-{name}" / "runs.jsonl")[-1]["exit_code"] == 3


def test_an_error_of_the_job(folder):
    (folder / "job.py").write_text(FAILING)
    done = run_all(folder)
    assert {name: one.code for name, one in done.items()} == {"alice": 3, "bob": 3, "carol": 1}
    assert done["carol"].err == "error: ValueError: of the job (at job.py:9 in broken)\n"
    for name in ("alice", "bob"):
        assert "carol" in done[name].err
        assert "ValueError" in done[name].err
        assert "of the job" not in done[name].err  # what a message says stays with its party
        assert "Traceback" not in done[name].err


def test_a_changed_program(folder):
    (folder / "changed").mkdir()
    (folder / "changed" / "job.py").write_text(JOB.replace("relu", "abs"))
    done = run_all(folder, jobs={"alice": "job.py", "bob": "changed/job.py", "carol": "job.py"})
    for one in done.values():
        assert one.code == 4
        assert "file job.py of the program, line 8" in one.err
        assert "(bob)" in one.err
        assert "begun" not in one.out


def test_a_reveal_outside_the_policy(folder):
    done = run_all(folder, head='reveals = ["carol"]')
    for one in done.values():
        assert one.code == 4, one
        assert "job.py:8 in main" in one.err
    assert any("reveal to party 1 (bob)" in one.err for one in done.values())
    assert not (folder / "runs" / "job-bob" / "reveals.jsonl").exists()


def test_a_party_that_does_not_come(folder):
    write_parties(folder, "connect_deadline = 4")
    children = [
        start("run", "--party", name, "--parties", "parties.toml", "job.py", cwd=folder)
        for name in ("alice", "bob")
    ]
    for child in children:
        done = end(child)
        assert done.code == 3
        assert "(carol" in done.err
        assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "job.py").unlink(), "job.py cannot be read"),
        (lambda f: (f / "job.py").write_text("main = 3"), "no main(session)"),
        (lambda f: (f / "job.py").write_text("def main(:"), "line 1"),
        (lambda f: (f / "alice.key").unlink(), "alice.key"),
        (lambda f: (f / "alice.key").chmod(0o644), "chmod 600"),
        (lambda f: (f / "parties.toml").write_text("nothing"), "not TOML"),
        (lambda f: (f / "runs").touch(), "choose another --log"),
    ],
)
def test_what_is_refused_at_once(folder, change, message):
    write_parties(folder)
    change(folder)
    done = tacit("run", "--party", "alice", "--parties", "parties.toml", "job.py", cwd=folder)
    assert done.code == 2, done
    assert done.err.startswith("error: ")
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_job_that_cannot_be_imported(folder):
    (folder / "job.py").write_text("import torch\ntorch.zeros(2) @ torch.zeros(3)\n")
    write_parties(folder)
    done = tacit("run", "--party", "alice", "--parties", "parties.toml", "job.py", cwd=folder)
    assert done.code == 1
    assert "job.py" in done.err
    assert "(at job.py:2 in <module>)" in done.err
    assert "src/tacit" not in done.err


def test_an_unknown_party(folder):
    write_parties(folder)
    done = tacit("run", "--party", "dave", "--parties", "parties.toml", "job.py", cwd=folder)
    assert done.code == 2
    assert "alice, bob, carol" in done.err
