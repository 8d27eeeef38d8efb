"""The suite `deployed`: which cases it has, and that a wrong output gives no figure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from benchmarks import deployed, deployed_links
from torch import nn
from torch.optim import SGD

import tacit


@pytest.fixture
def small(monkeypatch):
    """A case that trains a small network in threads."""
    case = deployed.Case(
        "small",
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 10)),
        partial(deployed.pictures, 4, 3, 2, 2),
        target=None,
        before="not measured",
        transport="threads",
        optimizer=SGD,
    )
    monkeypatch.setitem(deployed.BY_NAME, "small", case)
    return case


def test_a_training_is_compared_with_plain_torch(small):
    row = deployed.row("small")
    assert row.value > 0
    assert row.met is None
    assert "rounds" in row.note


def test_a_wrong_output_gives_no_figure(small, monkeypatch, capsys):
    wrong = torch.full((4, 10), 9.0)
    monkeypatch.setattr(deployed, "plain", lambda case: (1.0, wrong))
    assert deployed.attempted("small", lambda: [deployed.row("small")]) == []
    assert "of the largest output" in capsys.readouterr().out


def test_targets_become_ratios(small, monkeypatch):
    monkeypatch.setitem(deployed.BY_NAME, "small", replace(small, target=1e-6, optimizer=None))
    assert deployed.row("small").met is False


def test_cases_are_chosen_by_their_names(monkeypatch):
    ran = []
    monkeypatch.setattr(deployed, "attempted", lambda name, run: run())
    monkeypatch.setattr(deployed, "_listed", lambda name: ran.append(name) or [])
    list(deployed.rows(["CPU: LeNet"]))
    assert ran == ["CPU: LeNet, threads", "CPU: LeNet"]
    with pytest.raises(SystemExit, match="moon"):
        list(deployed.rows(["moon"]))


def test_links(monkeypatch):
    monkeypatch.setattr(deployed_links, "BYTES", 1 << 16)
    monkeypatch.setattr(deployed_links, "LAPS", 2)
    assert min(tacit.run(deployed_links.one_way)) > 0
    found = tacit.run(deployed_links.rounds)
    assert all(min(found[rank]) > 0 for rank in deployed_links.EVALUATORS)
