"""`tacit dealer`, and what the other commands say of a dealer."""

import json

import pytest
from tests.cli.shell import end, start, tacit
from tests.runtime.party_files import write_dealt, write_parties

from tacit.runtime.deploy.party_file import read_party_file

JOB = """
import torch

def main(session, scale="1"):
    own = torch.tensor([-1.5, 0.25]) if session.name == "alice" else None
    x = session.share(own, owner="alice", shape=(2,))
    y = session.share(torch.tensor([2.0, 4.0]), owner="bob")
    shown = session.reveal((x * y).relu() * float(scale))
    print("seen", shown.tolist())
    return shown
"""
MEMBERS = ("alice", "bob", "dora")
COMMON = ("--parties", "parties.toml")


def command(name, dealer="dora"):
    return ("dealer",) if name == dealer else ("run", "--party", name)


def run_all(folder, *arguments, members=MEMBERS, options=()):
    (folder / "job.py").write_text(JOB)
    started = {
        name: start(*command(name), *COMMON, *options, "job.py", *arguments, cwd=folder)
        for name in members
    }
    return {name: end(child) for name, child in started.items()}


@pytest.mark.full("test_all_on_this_machine")
def test_a_run_with_a_dealer_that_sees_no_value(tmp_path):
    write_dealt(tmp_path)
    done = run_all(tmp_path, "--", "3")
    assert [one.code for one in done.values()] == [0, 0, 0], done
    for name in ("alice", "bob"):
        assert "seen [0.0, 3.0]" in done[name].out
        assert "tensor([0., 3.])" in done[name].out
        assert "only with to_dealer=True" in done[name].out
    dealt = done["dora"].out
    assert "seen [nan, nan]" in dealt
    assert "result at" not in dealt
    assert "3.0" not in dealt.replace("torch", "")
    assert "float32[2] to alice, bob at" in dealt
    events = (tmp_path / "runs" / "job-dora" / "runs.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in events] == ["started", "ended"]


@pytest.mark.full("a process more; tests/runtime/test_dealer.py has the first party's dealer")
def test_the_first_partys_machine_runs_the_dealer(tmp_path):
    write_dealt(tmp_path, 'dealer = "insecure-first-party"', dealer=None)
    done = run_all(tmp_path, members=("alice", "bob"))
    assert [one.code for one in done.values()] == [0, 0], done
    for name in ("alice", "bob"):
        assert "seen [0.0, 1.0]" in done[name].out
        log = (tmp_path / "runs" / f"job-{name}" / "runs.jsonl").read_text()
        [told] = [one for one in map(json.loads, log.splitlines()) if one["event"] == "warning"]
        assert "alice runs the dealer, too" in told["text"]
        assert "can open every secret" in done[name].err
    checked = [
        start("party", "check", "--party", n, *COMMON, cwd=tmp_path) for n in ("alice", "bob")
    ]
    for one in map(end, checked):
        assert (one.code, "dealer" in one.out) == (0, True), one


def test_the_dealer_checks_links_too(tmp_path):
    write_dealt(tmp_path)
    started = {
        name: start("party", "check", "--party", name, *COMMON, "--json", cwd=tmp_path)
        for name in MEMBERS
    }
    for name, one in {name: end(child) for name, child in started.items()}.items():
        assert one.code == 0, one
        assert one.json["links"].keys() == set(MEMBERS) - {name}


def test_each_command_is_for_its_member(tmp_path):
    write_dealt(tmp_path)
    (tmp_path / "job.py").write_text(JOB)
    done = tacit("run", "--party", "dora", *COMMON, "job.py", cwd=tmp_path)
    assert (done.code, "party='dora' is the dealer; start it with `tacit dealer`" in done.err) == (
        2,
        True,
    )
    write_parties(tmp_path)
    done = tacit("dealer", *COMMON, "job.py", cwd=tmp_path)
    assert done.code == 2
    assert "there is no dealer: protocol='trio' with dealer=None needs none" in done.err


def test_blocks_make_a_party_file(tmp_path):
    texts = ['protocol = "additive"\n']
    for i, name in enumerate(MEMBERS):
        dealer = ["--dealer"] if name == "dora" else []
        address = f"127.0.0.1:{7000 + i}"
        texts.append(tacit("party", "init", name, "--address", address, *dealer, cwd=tmp_path).out)
    path = tmp_path / "parties.toml"
    path.write_text("".join(texts))
    file = read_party_file(path)
    assert (file.names, len(file.parties)) == (MEMBERS, 2)
    assert (file.dealer.name, file.dealer.port) == ("dora", 7002)


def test_the_doctor_says_what_a_dealer_can_do(tmp_path):
    own = tacit("doctor", "--parties", write_dealt(tmp_path))
    assert own.code == 0
    assert "up to 1 of 2 parties" in own.out
    assert "must pool with none: dora with alice, dora with bob" in own.out
    assert "dora, the dealer: the program and all shapes" in own.out
    assert own.out.count("certificate valid until") == 3
    assert "warning" not in own.out
    first = write_dealt(tmp_path, 'dealer = "insecure-first-party"', dealer=None)
    said = tacit("doctor", "--parties", first, "--json").json["security"]
    assert said["warning"][0].startswith("alice runs the dealer, too")


def test_all_on_this_machine(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    options = ("--protocol", "additive", "--names", "alice,bob")
    done = tacit("local", *options, "job.py", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "alice, bob, dealer as threads" in done.out
    assert done.out.count("result at") == 2
    done = tacit("local", *options, "--dealer", "none", "job.py", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "alice, bob as threads" in done.out
