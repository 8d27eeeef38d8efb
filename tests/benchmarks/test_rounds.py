"""The suite `rounds`: no function or layer takes more rounds than its table allows."""

from __future__ import annotations

import pytest
from benchmarks.rounds import CASES, WAYS, measured, rows
from tests.tiers import FULL

LAYERS = ("argmax of 50,000", "LSTM of 2 layers, 8 steps", "BERT layer", "LLaMA layer")
SMALL = [name for name in CASES if name not in LAYERS]


def check(names: list[str]) -> None:
    for name, found in measured(names).items():
        rounds = tuple(max(one.rounds for one in found[way]) for way in WAYS)
        assert all(a <= b for a, b in zip(rounds, CASES[name].most, strict=True)), (name, rounds)


def test_rounds_of_functions_and_cells():
    check(SMALL if FULL else SMALL[:3])


@pytest.mark.full("test_rounds_of_functions_and_cells; whole layers take some seconds")
def test_rounds_of_layers():
    check(list(LAYERS))


def test_a_row_tells_the_target(monkeypatch):
    """The target is of the recorded call."""
    monkeypatch.setattr("benchmarks.rounds.CASES", {"softmax of 128": CASES["softmax of 128"]})
    as_it_is, recorded = rows()
    assert as_it_is.target is None
    assert recorded.met
    assert recorded.ratio < 0.5
