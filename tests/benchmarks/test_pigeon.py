"""The suite `pigeon`: which cases it has, and what it measures of layers."""

from __future__ import annotations

import pytest
import torch
from benchmarks import pigeon, pigeon_layers
from torch import nn

import tacit


@pytest.fixture
def measured(monkeypatch):
    """Lets cases run nothing; their names are collected."""
    ran = []
    for name in ("relu_rows", "network_rows", "layer_rows"):
        monkeypatch.setattr(pigeon, name, lambda *case: ran.append(case) or [])
    return ran


def test_cases_are_chosen_by_their_names(measured):
    list(pigeon.rows(["resnet-152, imagenet, batch 1, quad"]))
    assert [case[1:] for case in measured] == [(1, ("quad", 64)), (1, ("quad", 32))]
    measured.clear()
    list(pigeon.rows())
    assert len(measured) == 4 * (2 + 6 + 4 + 4)
    with pytest.raises(SystemExit, match="moon"):
        list(pigeon.rows(["moon"]))


def test_every_recorded_figure_has_a_case():
    networks = {f"{one.name}, {one.data}" for one in pigeon.NETWORKS}
    settings = {f"{one.protocol} {one.ring}" for one in pigeon.SETTINGS}
    assert pigeon.FIGURES["seconds"].keys() <= networks | {"ReLU of 1,000,000"}
    for figures in pigeon.FIGURES["seconds"].values():
        assert figures.keys() <= settings
    assert pigeon.FIGURES["ReLU, bytes an element"].keys() == settings
    published = pigeon.FIGURES["MB a picture and party"].keys() - {"about"}
    cases = {f"{one.name}, {s.title}" for one in pigeon.NETWORKS for s in pigeon.SETTINGS}
    assert published <= cases
    kinds = {*pigeon_layers.KINDS.values(), pigeon_layers.TOTAL}
    assert all(pigeon.FIGURES["MB a picture and party"][case].keys() <= kinds for case in published)


def tiny(session):
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(18, 3)
    )
    x = session.share(torch.rand(1, 1, 8, 8), owner=1)
    return pigeon_layers.spent(session, session.share(net, owner=0), x)


@pytest.mark.parametrize(("protocol", "parties"), [("trio", 3), ("quad", 4)])
def test_the_layers_of_a_network(protocol, parties):
    found = tacit.run(tiny, protocol=protocol, parties=parties)
    for spent in found:
        layers = [spent[kind] for kind in {*pigeon_layers.KINDS.values()}]
        whole = spent["all"]
        assert sum(one.sent for one in layers) <= whole.sent
        assert sum(one.rounds for one in layers) <= whole.rounds
        assert sum(one.seconds for one in layers) <= whole.seconds
    busiest = max(found, key=lambda spent: spent["all"].sent)
    assert busiest["ReLUs"].sent > busiest["all"].sent / 2
    rows = pigeon_layers.rows("tiny", found, {"ReLUs": 1e-3})
    baselines = {row.name: row.baseline for row in rows}
    assert baselines["tiny: ReLUs"] == "PIGEON's paper"
    assert baselines["tiny: convolutions"] == "all layers"
    total = next(row for row in rows if row.name == "tiny: all")
    assert total.ratio == 1
