"""Every example runs as its first lines say, quickly, and says what it should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests import forked
from tests.commands import folder_with_tacit
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MOST_LINES = 60

SAYS = {
    "01_hello.py": r"party 2 learns that the mean is 49,000",
    "02_inference.py": r"32 of 32 answers as the network gives in plain, (29|3[0-2]) right",
    "03_two_owners_train.py": r"losses .*; (7[5-9]|[89]\d)\.\d% of 256 right",
    "07_two_parties_alone.py": r"(10[7-9]|11\d) of 114 diagnoses right, (10[7-9]|11\d) after",
    "08_one_of_four_cheats.py": r"\nquad: \d+ changes noticed, nothing wrong was opened\n$",
    "09_enclave.py": r"^fixed: losses .*; [6-9]\d\.\d% of 256 right\nswalp: losses .* right\n$",
    "10_statistics.py": r"treatment 3: too few patients\nmass: 8\.5\d+ \+- 0\.70",
    "11_two_hospitals/train.py": r"loss \d\.\d\d, then 0\.[12]\d; (8[5-9]|9\d)% of 210",
    "classical/bandit.py": r"^(4\d|5\d) of 60 offers liked, 60 as a plain run makes them\n$",
    "classical/k_means.py": r"group 0: 50 .*\n(.*\n)*150 of 150 .*, centres within 0\.000\d+\n$",
    "classical/linear_svm.py": r"^(10[7-9]|11\d) of 114 .* right, 11[34] of 114 as after a plain",
    "classical/tf_idf.py": r"^(3[5-9]|40) of 40 tickets right, 40 as after a plain training\n$",
    "crypten/figure2_tensors.py": r"^tensor\(\[3\., 5\., 7\.\]\)\n$",
    "crypten/digits.py": r"^(9\d|1[012]\d) of 128 right\n$",
    "crypten/figure3_training.py": r"^one step lowers the loss by 0\.0\d+\n$",
    "crypten/figure4_inference.py": r"^largest difference from the plain network: \d\.\de-0[45]\n$",
    "crypten/logistic_regression.py": r"^1[56]\d of 169 right\n$",
    "05_gpu.py": r"largest difference from the plain network: \d\.\de-0[3-9]",
    "demo.py": r"64 of 64 answers as the network gives in plain",
}


def output(*command: str | Path, **environment: str) -> str:
    """What a command prints; it ends well."""
    with folder_with_tacit() as tacit:
        path = os.pathsep.join([str(tacit), str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PATH": path} | environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


DIGITS = pytest.mark.full(
    "test_demo.py and test_real_data.py use digits, test_dealer_free.py two parties; "
    "test_quad.py cheats; tests/stats has what 10 computes, test_tables.py loads what 11 does; "
    "classical ones train as 03 does, or do what tests/stats and tests/tensor check; tests/compat "
    "has the steps of crypten's"
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            n,
            marks=[DIGITS]
            * n.startswith(("02", "03", "07", "08", "10", "11", "classical", "crypten")),
        )
        for n in SAYS
        if n != "demo.py"
    ],
)
def test_an_example_runs(name):
    code, said, err = forked.run([EXAMPLES / name], cwd=ROOT, warnings_are_errors=True)
    assert code == 0, said + err
    assert re.search(SAYS[name], said), said


@pytest.mark.full("tests/runtime/test_demo.py runs its program")
def test_the_demo_starts_as_a_user_starts_it():
    said = output(sys.executable, "-W", "error", EXAMPLES / "demo.py")
    assert re.search(SAYS["demo.py"], said), said


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_happens_without_a_gpu_is_said():
    said = forked.run([EXAMPLES / "05_gpu.py"], cwd=ROOT)[1]
    assert said.startswith("torch finds no GPU here: this runs on the CPU.")


@pytest.mark.full("tests/cli/test_run.py runs `tacit run` with three parties")
def test_three_machines_as_three_processes(tmp_path):
    port = str(free_ports(3)[0])
    said = output("bash", EXAMPLES / "04_three_machines" / "run.sh", tmp_path, PORT=port)
    assert re.search(r"bob: (29|3[0-2]) of 32 digits are right", said), said


@pytest.mark.full("tests/cli/test_dealer.py runs two parties and `tacit dealer`")
def test_two_parties_and_a_dealer_as_three_processes(tmp_path):
    port = str(free_ports(3)[0])
    run = EXAMPLES / "06_two_parties_and_a_dealer" / "run.sh"
    said = output("bash", run, tmp_path, PORT=port)
    for told in ("alice: {} and has the model", "bob: {} and has no model"):
        assert re.search(told.format(r"16\d of 169 tumours are right,"), said), said
    assert "dora with alice, dora with bob" in said
    assert said.count("tumours are right") == 2  # and nothing at the dealer


@pytest.mark.full("test_join.py joins exports and trains, tests/cli/test_check.py rehearses")
def test_joined_tables_are_rehearsed_and_run(tmp_path):
    job = EXAMPLES / "12_joined_tables" / "job.py"
    assert "no problems found" in output("tacit", "check", job)
    said = output("tacit", "local", "--report", tmp_path / "report.html", job)
    assert len(re.findall(r"'1[12]\d of 140 patients right; crp weighs most'", said)) == 3, said
    assert "job.py" in (tmp_path / "report.html").read_text()


def test_the_demo_is_what_make_runs():
    assert re.search(
        r"^demo:.*\n\t.*python examples/demo\.py$", (ROOT / "Makefile").read_text(), re.M
    )


def test_every_example_is_tried():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        name for name in SAYS if "/" not in name
    }
    folders = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    assert [name for name in folders if name[0] != "_"] == [
        "04_three_machines",
        "06_two_parties_and_a_dealer",
        "11_two_hospitals",
        "12_joined_tables",
        "classical",
        "crypten",
    ]


def test_examples_are_short():
    long = {p.name: len(p.read_text().splitlines()) for p in EXAMPLES.rglob("[01]*/*.py")}
    long |= {p.name: len(p.read_text().splitlines()) for p in EXAMPLES.glob("[01]*.py")}
    long |= {p.name: len(p.read_text().splitlines()) for p in EXAMPLES.glob("c*/*.py")}
    assert long
    assert not [name for name, lines in long.items() if lines > MOST_LINES]
