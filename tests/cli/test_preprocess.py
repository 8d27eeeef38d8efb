"""`tacit preprocess`: parties and a dealer make stored runs, and `tacit run` uses them."""

from __future__ import annotations

import json

import pytest
from tests.cli.shell import end, start, tacit
from tests.cli.test_dealer import COMMON, JOB, MEMBERS
from tests.runtime import stored_programs as programs
from tests.runtime.party_files import write_dealt

from tacit.runtime import preprocess


def in_all(folder, members, *command):
    started = [start(*command, "--party", n, *COMMON, "job.py", cwd=folder) for n in members]
    return [end(child) for child in started]


@pytest.mark.full("five processes; tests/runtime/test_preprocessing.py does it in threads")
def test_runs_are_made_and_used(tmp_path):
    write_dealt(tmp_path)
    (tmp_path / "job.py").write_text(JOB)
    made = in_all(tmp_path, MEMBERS, "preprocess", "--runs", "2")
    assert [one.code for one in made] == [0, 0, 0], made
    assert not (tmp_path / "preprocessed" / "dora").exists()
    names = MEMBERS[:2]
    started = {
        name: start(
            *("run", "--party", name, *COMMON, "--preprocessed", f"preprocessed/{name}", "job.py"),
            cwd=tmp_path,
        )
        for name in names
    }
    used = {name: end(child) for name, child in started.items()}
    assert [one.code for one in used.values()] == [0, 0], used
    assert all("seen [0.0, 1.0]" in one.out for one in used.values())
    found = tacit("preprocess", "--list", "--folder", "preprocessed/alice", "--json", cwd=tmp_path)
    [left] = json.loads(found.out)["ready"]
    assert left["runs"] == 1
    assert left["program"].startswith("job.py ")


def test_an_inventory_is_listed_and_wiped(tmp_path):
    preprocess(programs.layer, folder=tmp_path, runs=3, parties=2, protocol="additive")
    folder = ("--folder", tmp_path / "party1")
    listed = tacit("preprocess", "--list", *folder)
    assert listed.code == 0
    assert "3 " in listed.out
    assert "layer" in listed.out
    assert "additive" in listed.out
    wiped = tacit("preprocess", "--wipe", *folder, "--json")
    assert json.loads(wiped.out)["wiped"] == 3
    assert "no stored runs are left" in tacit("preprocess", "--list", *folder).out


@pytest.mark.parametrize("order", [(), ("--party", "alice"), ("--party", "a", "job.py")])
def test_what_is_missing_is_said(tmp_path, order):
    done = tacit("preprocess", *order, cwd=tmp_path)
    assert done.code == 2
    assert "needed" in done.err
