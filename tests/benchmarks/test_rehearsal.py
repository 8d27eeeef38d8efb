"""The suite `rehearsal` on a small network: rows beside what was measured in the same run."""

from __future__ import annotations

from benchmarks import rehearsal
from torch import nn


def test_rows_of_a_small_network(monkeypatch):
    case = (lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.ReLU()), (1, 3, 2, 2), 1)
    monkeypatch.setattr(rehearsal, "CASES", {"small": case})
    monkeypatch.setattr(rehearsal, "LINKS", ("1gbit",))
    cost, forecast = rehearsal.rows()
    assert (cost.target, cost.lower_is_better) == (1.0, True)
    assert cost.value > 0
    assert forecast.value > 1e-3  # the latency of a round
    assert forecast.baseline_value > 1e-3
