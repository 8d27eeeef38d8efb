"""The table of failures in the documents is about what is tested: all of it, and nothing else."""

from __future__ import annotations

import json

from tests.deployment import matrix, test_failing_dealers, test_failures, test_links


def test_every_case_is_in_the_table() -> None:
    modules = (test_failures, test_failing_dealers, test_links)
    tests = [name for module in modules for name in vars(module) if name.startswith("test_")]
    assert {*json.loads(matrix.KNOWN.read_text())["cases"]} == {*tests}
    page = matrix.KNOWN.with_suffix(".md").read_text()
    for case in json.loads(matrix.KNOWN.read_text())["cases"].values():
        assert f"## {case['case']}" in page
