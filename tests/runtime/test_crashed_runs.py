"""A crash at any point of making or using a stored run never leads to a second use of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tests import forked
from tests.runtime import crashes
from tests.runtime import stored_programs as programs
from tests.tiers import FULL, spread

import tacit

SCRIPT = Path(crashes.__file__)


@pytest.fixture(scope="module")
def master(tmp_path_factory) -> Path:
    """A folder with three stored runs of each party."""
    folder = tmp_path_factory.mktemp("crashes") / "master"
    tacit.preprocess(programs.layer, folder=folder, runs=3, **crashes.SETTINGS)
    return folder


def boundaries(master: Path, action: str, copy: Path) -> int:
    shutil.copytree(master, copy)
    return crashes.points_of(copy, action)


OTHERS = pytest.mark.full("other crashes than a loss of power, which loses most")


@pytest.mark.parametrize(
    "mode", ["power", pytest.param("process", marks=OTHERS), pytest.param("party", marks=OTHERS)]
)
@pytest.mark.parametrize("action", ["use", "make"])
def test_no_run_is_used_twice(master, tmp_path, action, mode):
    count = boundaries(master, action, tmp_path / "counted")
    assert count > 40
    step, seed = 5 if mode == "party" else 3, torch.seed()
    print(f"seed {seed}")  # of the first point: run after run, all are reached
    points = spread(range(1 + seed % step, count + 1, step), 4)
    order = [SCRIPT, master, action, mode, json.dumps(points)]
    code, out, err = forked.run(order)
    assert code == 0, err
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["point"] for one in found] == points
    assert not [one for one in found if one["twice"]], found
    # Only points near the end may not be reached: the parties run side by side.
    assert sum(one["crashed"] == crashes.CRASHED for one in found) >= len(points) * 0.8, found
    assert {one["crashed"] for one in found} <= {0, crashes.CRASHED}, found
    assert {one["again"] for one in found} == {0}, found
    if action == "use" and FULL:
        assert any(one["sent"] for one in found)
