"""The inputs that the coverage-guided fuzzer has kept: no reader fails on them in another way."""

from __future__ import annotations

import pytest
from tools.fuzz import CORPUS, TARGETS, corpus, covered, fuzz, outcome


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_read_or_refused(name, tmp_path):
    inputs = corpus(name)
    assert len(inputs) >= 3
    assert sum(map(len, inputs)) < 200_000
    for data in inputs:
        assert outcome(TARGETS[name], data, tmp_path) is None, data[:200]


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_search_finds_nothing(name, capsys):
    assert fuzz(name, seconds=1.0, seed=20261116, keep=False) == []
    assert "runs" in capsys.readouterr().out


def test_what_a_reader_must_not_raise_is_a_finding(tmp_path):
    def broken(data, _):
        if data.startswith(b"\x80"):
            raise IndexError("a defect")

    assert isinstance(outcome(broken, b"\x80", tmp_path), IndexError)
    assert outcome(broken, b"\x00", tmp_path) is None
    assert (
        covered(TARGETS["frames"], b"", tmp_path)[0]
        != covered(TARGETS["frames"], (CORPUS / "frames" / "seed-tensors").read_bytes(), tmp_path)[
            0
        ]
    )
