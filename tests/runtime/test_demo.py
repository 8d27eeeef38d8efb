"""The demo's program classifies as the plain network does, and shares do not show the pictures."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import tacit

PATH = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_classifies_what_nobody_sees():
    spec = importlib.util.spec_from_file_location("demo", PATH)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    parties = tacit.run(demo.main)
    picture, labels = demo.pictures(2026, demo.COUNT)
    digits = parties[demo.PICTURES]["digits"]
    assert (digits == demo.trained()(picture).argmax(1)).all()
    assert (digits == labels).float().mean() > 0.9
    assert parties[0]["digits"] is parties[2]["digits"] is None
    assert parties[0]["cost"].rounds == 0
    plain = (picture * (1 << demo.FRACTION_BITS)).round().long().flatten()[:3].tolist()
    assert all(party["held"] != plain for rank, party in enumerate(parties) if rank != 1)
