"""The suite `table_statistics` on a short table: results are near those in plain."""

from __future__ import annotations

import re

from benchmarks import table_statistics


def test_rows_tell_rounds_and_errors(monkeypatch):
    names = ("accuracy", "AUC", "correlation", "linear regression")
    monkeypatch.setattr(
        table_statistics, "CASES", {name: table_statistics.CASES[name] for name in names}
    )
    rows = table_statistics.rows(count=40)
    assert [row.name for row in rows] == [*names]
    for row in rows:
        rounds, error = re.match(r"(\d+) rounds, .* MB; largest error (.*)", row.note).groups()
        assert int(rounds) > 0
        assert float(error) < 2**-9
