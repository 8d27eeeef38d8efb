"""The suite `throughput` on a small network: both ways give the plain scores, rows tell rates."""

from __future__ import annotations

import pytest
from benchmarks import throughput
from benchmarks.throughput import Measured
from torch import nn

import tacit


def small() -> nn.Module:
    layers = (nn.Conv2d(3, 4, 3, stride=8), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(64, 10))


def test_both_ways_are_measured(monkeypatch):
    monkeypatch.setitem(throughput.NETWORKS, "small", small)
    found = tacit.run(throughput.party, "small", (6, 12), 1)
    for one in found:
        assert one.error < 1e-2
        assert {*one.seconds} == {(way, b) for way in ("loop", "map") for b in (6, 12)}
        assert {*one.megabytes} == {"loop", "map"}
    for batch in (6, 12):  # the dealer sends to one party; by turns, every link carries as much
        loop, turned = ([one.sent[way, batch] for one in found] for way in ("loop", "map"))
        assert 0 in loop[0].values()
        assert max(max(links.values()) for links in turned) < max(
            max(links.values()) for links in loop
        )


def test_rows_tell_rates(monkeypatch):
    def run(name: str, batches: tuple[int, ...], *_: object, **__: object) -> list[Measured]:
        cases = {(way, b): b / (2.0 if b == 8 else 5.0) for way in ("loop", "map") for b in batches}
        waits = dict.fromkeys(cases, 1.0)
        sent = {case: {1: 10**9, 2: 0} for case in cases}
        return [Measured(cases, waits, sent, {"loop": 1e3, "map": 2e3})] * 3

    monkeypatch.setattr(throughput, "run", run)
    rows = throughput.growth_rows("VGG-16", (8, 64, 192))
    assert [row.ratio for row in rows] == pytest.approx([2.5] * 4)
    assert [row.target for row in rows] == [1.0, 1.8, 1.0, 1.8]
    assert "2.0 GB" in rows[-1].note
    link = throughput.link_rows(64)[0]
    assert link.value == pytest.approx(100 * 8 / (64 / 5))
    assert link.met is False
