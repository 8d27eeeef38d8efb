"""The demo's program gives the plain results, and what travels does not show the inputs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

import tacit

PATH = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_is_exact_and_sends_masked_words():
    spec = importlib.util.spec_from_file_location("demo", PATH)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    parties = tacit.run(demo.main)
    for party in parties:
        assert torch.equal(party["sum"], demo.A + demo.B)
        assert torch.equal(party["product"], demo.A @ demo.B)
        assert party["cost"].rounds == 2
    assert parties[1]["seen"][0] == parties[2]["seen"][0] != demo.A[0, :3].tolist()
