"""`tacit check`: a rehearsal of a job before any party meets."""

import re

import pytest
from tests.cli.shell import tacit

from tacit.cli.check import show
from tacit.cli.screen import Screen
from tacit.runtime.rehearsal.rehearse import PlaceCost, Rehearsal
from tacit.transport import PROFILES

JOB = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        nn.init.ones_(self.first.weight)
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def main(session, scale="1"):
    torch.manual_seed(0)
    data = session.load("visits.csv", owner="party1", columns=["age", "weight", "height"])
    model = session.share(Net(), owner=0)
    with torch.no_grad():
        y = model(data * float(scale))
    return session.reveal(y.mean(), to=1)
"""
TABLE = "age,weight,height\n0.5,1.5,2\n-1,0.25,1\n"
STAND_IN = ("--stand-in", "visits.csv=20:age,weight,height")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path


def test_a_clean_job(folder):
    done = tacit("check", *STAND_IN, "job.py", cwd=folder)
    assert done.code == 0, done.out + done.err
    assert "visits.csv is not here: made-up numbers stand in for it, 20x3" in done.out
    assert "no problems found" in done.out
    for place in ("load at job.py:19 in main", "Net.first", "Net.second", "in all"):
        assert any(line.startswith(place) for line in done.out.splitlines()), place
    assert "LAN of 1 Gbit/s" in done.out
    assert "WAN" in done.out
    assert len(done.out.splitlines()) <= 24  # one screen


def test_a_slow_place_is_shown_though_it_sends_nothing(capsys):
    layers = [PlaceCost(f"layer {i}", 1, 0.01, (i + 1, i)) for i in range(20)]
    places = [PlaceCost("preparing", 0, 9.0, (0, 0)), *layers, PlaceCost("idle", 0, 0.1, (0, 0))]
    seconds = dict.fromkeys(PROFILES, 9.5)
    show(Screen(as_json=False), Rehearsal([], places, ("a", "b"), 20, (210, 190), seconds, {}, []))
    told = capsys.readouterr().out
    assert re.search(r"^preparing +0 +9.000 s +0 B +0 B$", told, re.MULTILINE)
    assert re.search(r"^in all +20 +9.300 s +210 B +190 B$", told, re.MULTILINE)
    assert "layer 6 " not in told
    assert "layer 7 " in told
    assert "idle" not in told
    assert "cheaper places that are left out: 7" in told


def test_problems_end_with_1(folder):
    (folder / "visits.csv").write_text(TABLE)
    done = tacit("check", "job.py", "--", "4e5", cwd=folder)
    assert done.code == 1
    assert "stand in" not in done.out
    assert "1. Net.first, job.py:14 in forward: aten.addmm.default" in done.out
    assert "a result is beyond the range: 2^20 in magnitude" in done.out
    assert "what to do: scale it, or give tacit.run a larger range_bits" in done.out


def test_other_settings_solve_the_problem(folder):
    (folder / "visits.csv").write_text(TABLE)
    done = tacit("check", "--range-bits", "29", "job.py", "--", "4e5", cwd=folder)
    assert done.code == 0, done.out


def test_numbers_for_programs_are_those_of_a_run(folder):
    (folder / "visits.csv").write_text(TABLE)
    done = tacit("check", "--json", "job.py", cwd=folder)
    assert done.code == 0, done.err
    assert done.json["problems"] == []
    assert done.json["seconds"]["wan"] > done.json["seconds"]["1gbit"]
    run = tacit("local", "--json", "job.py", cwd=folder)
    parties = {one["party"]: one for one in run.json["parties"]}
    sent = {name: one["bytes_sent"] for name, one in parties.items()}
    assert done.json["bytes_sent"] == sent
    assert done.json["rounds"] == max(one["rounds"] for one in parties.values())
    assert sum(place["bytes_sent"]["party1"] for place in done.json["places"]) == sent["party1"]


def test_a_run_that_checks(folder):
    (folder / "visits.csv").write_text(TABLE)
    good = tacit("local", "--check", "job.py", cwd=folder)
    assert good.code == 0, good.err
    assert "result at party1" in good.out
    assert "no problems found" in good.out
    bad = tacit("local", "--check", "--json", "job.py", "--", "4e5", cwd=folder)
    assert bad.code == 1
    assert [problem["path"] for problem in bad.json["problems"]] == ["Net.first"]
    assert bad.json["parties"][1]["party"] == "party1"


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ((), 1, "give --stand-in visits.csv=ROWSxCOLUMNS"),
        (("--stand-in", "visits.csv"), 2, "FILE=SIZE is needed"),
        (("--stand-in", "visits.csv=many"), 1, "such as 1000x13"),
        (("--protocol", "enclave"), 2, "run it with tacit local"),
        (("--num-parties", "2"), 2, "parties=2"),
    ],
)
def test_what_is_missing_is_told(folder, options, code, told):
    done = tacit("check", *options, "job.py", cwd=folder)
    assert done.code == code
    assert told in done.out + done.err
    assert "Traceback" not in done.err


DECLARED = """
from tacit.tables import Category, Csv, Date, Number, Truth

KINDS = {
    "age": Number(),
    "sex": Category(["f", "m"]),
    "seen": Date("2020-01-01", ["%d.%m.%Y"]),
    "ill": Truth(),
}


def main(session):
    data = session.load(
        "visits.csv", owner=1, columns=KINDS, csv=Csv(separator=";", decimal=",")
    )
    return tuple(data.shape)
"""


def test_declared_columns_have_cells_of_their_kind(folder):
    (folder / "job.py").write_text(DECLARED)
    done = tacit("check", "--stand-in", "visits.csv=8x4", "--json", "job.py", cwd=folder)
    assert done.code == 0, done.out
    assert done.json["stand_ins"] == {"visits.csv": "8x4"}
    assert done.json["results"] == [[8, 5]] * 3
