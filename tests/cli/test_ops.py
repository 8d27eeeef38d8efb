"""`tacit ops`: the rules that there are, and what a model needs."""

import pytest
from tests.cli.shell import tacit, tacit_process

from tacit.tensor.table import operators

MODELS = """
import torch
from torch import nn

class Curious(nn.Module):
    def forward(self, x):
        return torch.nonzero(x).sum() + x.sum()

def network():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Softmax(-1))
    return model.eval(), torch.zeros(2, 4)

def training():
    return nn.Linear(4, 3), torch.zeros(2, 4)

def curious():
    return Curious().eval(), torch.ones(3, 4)

def broken():
    return torch.zeros(2) @ torch.zeros(3)

def alone():
    return nn.Linear(1, 1)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


def test_all_rules():
    done = tacit("ops", "--json")
    assert done.code == 0
    assert done.json["operators"] == operators()
    assert "mm" in done.json["operators"]["matmul"]
    assert "nonzero" in done.json["operators"]["refused"]


@pytest.mark.parametrize(
    "source", ["models.py", pytest.param("models", marks=pytest.mark.full("models.py"))]
)
def test_a_model_that_runs(folder, source):
    done = tacit_process("ops", f"{source}:network", cwd=folder)
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines()]
    assert ["addmm", "1", "yes"] in rows
    assert ["relu", "1", "yes"] in rows


@pytest.mark.full("test_a_model_that_runs")
def test_a_model_in_training_has_gradients(folder):
    names = {
        one["operator"]
        for one in tacit("ops", "models.py:training", "--json", cwd=folder).json["operators"]
    }
    assert "aten.sum.default" in names
    assert "aten.mm.default" in names


def test_a_model_that_does_not(folder):
    done = tacit("ops", "models.py:curious", "--json", cwd=folder)
    assert done.code == 1
    works = {one["operator"]: one["works"] for one in done.json["operators"]}
    assert works["aten.nonzero.default"] is False
    assert works["aten.sum.default"] is True
    assert any(one["remedy"] for one in done.json["problems"])


def test_errors_of_the_function_are_cut_to_its_frames(folder):
    done = tacit("ops", "models.py:broken", cwd=folder)
    assert done.code == 1
    assert "models.py" in done.err
    assert "in broken" in done.err
    assert "tacit/cli" not in done.err
    assert "tacit/cli" in tacit("ops", "models.py:broken", "--debug", cwd=folder).err


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("network", "MODULE:FUNCTION"),
        ("absent.py:f", "neither a Python file"),
        ("absent:f", "nor a module"),
        ("models.py:absent", "no function 'absent'"),
        ("models.py:alone", "a tuple of a torch.nn.Module and an example"),
    ],
)
def test_what_cannot_be_asked(folder, model, message):
    done = tacit("ops", model, cwd=folder)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert message in done.err
    assert "Traceback" not in done.err
