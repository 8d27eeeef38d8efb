"""The demo's program answers as the plain network does, and shares do not show the pictures."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import tacit

PATH = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.full("the first example; tests/protocols/test_conformance.py has processes")
def test_the_demo_recognises_what_nobody_sees():
    spec = importlib.util.spec_from_file_location("demo", PATH)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    model = demo.trained()
    demo.trained = lambda: model  # torch's generator is one for all threads: train before
    pictures, labels = (data[-demo.COUNT :] for data in demo.digits())
    plain = model(pictures).argmax(1)
    parties = tacit.run(demo.main)
    answer = parties[demo.PICTURES]["answer"]
    assert (answer == plain).all()
    assert (answer == labels).float().mean() > 0.9
    assert parties[0]["answer"] is parties[2]["answer"] is None
    assert parties[0]["cost"].rounds == 0
    words = (pictures * (1 << 16)).round().long().flatten()[:3].tolist()
    assert all(party["held"] != words for rank, party in enumerate(parties) if rank != 1)
