"""The table of failures in the documents is about what is tested: all of it, and nothing else."""

from __future__ import annotations

import json

from tests.deployment import matrix, test_failures, test_links


def test_every_case_is_in_the_table() -> None:
    tests = [n for m in (test_failures, test_links) for n in vars(m) if n.startswith("test_")]
    assert {*json.loads(matrix.KNOWN.read_text())["cases"]} == {*tests}
    page = matrix.KNOWN.with_suffix(".md").read_text()
    for case in json.loads(matrix.KNOWN.read_text())["cases"].values():
        assert f"## {case['case']}" in page
