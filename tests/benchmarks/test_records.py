"""A run keeps each row as soon as it is measured."""

from __future__ import annotations

import json

import pytest
from benchmarks import __main__ as program
from benchmarks import crypten
from benchmarks.measure import Row


def test_a_run_that_is_cut_keeps_what_it_measured(tmp_path, monkeypatch):
    def rows(only):
        for name in only:
            if name == "broken":
                raise KeyboardInterrupt
            yield Row(name=name, value=2.0, unit="s", baseline="paper", baseline_value=1.0)

    monkeypatch.setattr(crypten, "rows", rows)
    monkeypatch.setattr(program, "RESULTS", tmp_path)
    command = ["benchmarks", "crypten", "--only", "ResNet-18, trio", "text", "broken", "ViT"]
    monkeypatch.setattr(program.sys, "argv", command)
    with pytest.raises(KeyboardInterrupt):
        program.main()
    [file] = tmp_path.iterdir()
    assert file.name.endswith("-crypten-ResNet-18_trio-text-broken-ViT.json")
    kept = json.loads(file.read_text())
    assert [row["name"] for row in kept["rows"]] == ["ResNet-18, trio", "text"]
