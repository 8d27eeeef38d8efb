"""The table of a training step by layer: all time has a place, and products have their layer's."""

from __future__ import annotations

import pytest
import torch
from benchmarks import goten_layers
from benchmarks.goten import phases, step
from benchmarks.goten_layers import Sections, layer_rows, measured_layers, table
from torch import nn

import tacit


def network():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))


def test_a_section_gets_its_time_and_its_phases(monkeypatch):
    clock, seconds = iter([0.0, 1.0, 4.0, 10.0]), {"wait": 0.0}
    monkeypatch.setattr(goten_layers.time, "perf_counter", lambda: next(clock))
    sections = Sections(lambda: seconds)
    sections.begin("first")
    seconds["wait"] = 0.25
    sections.begin("second")
    seconds |= {"wait": 1.25, "send": 1.0}
    sections.begin("first")
    sections.begin(None)
    assert +sections.spent["first"] == {"wait": 0.25, "other": 6.75, "all": 7.0}
    assert sections.spent["second"]["wait"] == 2.0  # waiting and sending
    assert sections.spent["second"]["other"] == 1.0


def trained(session):
    torch.manual_seed(2)
    model = session.share(network(), owner=0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = session.share(torch.rand(4, 1, 8, 8), owner=1), session.share(torch.arange(4) % 3, 1)
    sections = Sections(lambda: phases(session) if session.is_enclave else {})
    with measured_layers(model, optimizer, sections):
        step(model, optimizer, x, y)
    step(model, optimizer, x, y)  # not counted
    if session.is_enclave:
        measured.append(sections.spent)


measured: list = []


def test_the_layers_of_a_step():
    measured.clear()
    tacit.run(trained, parties=2, protocol="enclave", precision="swalp")
    [spent] = measured
    names = ["0 Conv2d", "1 ReLU", "2 Flatten", "3 Linear"]
    both = {f"{name}, {way}" for name in names for way in ("forward", "backward")}
    assert spent.keys() == both | {"before the layers", "loss, and between layers", "optimizer"}
    waited = {name for name, columns in spent.items() if columns["wait"] > 0}
    products = {"0 Conv2d", "3 Linear"}
    assert waited == {f"{name}, {way}" for name in products for way in ("forward", "backward")}
    assert all(columns["all"] > 0 for columns in spent.values())
    assert len(table(spent, 1).splitlines()) == 1 + len(spent)
    found = layer_rows("case", spent, 2)
    assert sum(row.ratio for row in found) == pytest.approx(1)
