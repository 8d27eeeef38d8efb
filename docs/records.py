"""The newest record of each suite of benchmarks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


class Record(NamedTuple):
    """The rows of one suite, and the run that they come from."""

    file: str
    run: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def machine(self) -> str:
        return f"{self.run['processor']} ({self.run['machine']}), torch {self.run['torch']}"

    @property
    def source(self) -> str:
        """Date, machine, commit and file."""
        date, commit = self.run["date"][:10], self.run["commit"][:12]
        return f"{date}, {self.machine}, commit {commit}; record `{self.file}`"


def newest() -> dict[str, Record]:
    """By suite."""
    found: dict[str, Record] = {}
    for path in sorted(RESULTS.glob("*-*-*.json")):
        content = json.loads(path.read_text())
        run = content["run"]
        for suite in {row["suite"] for row in content["rows"]}:
            rows = [row for row in content["rows"] if row["suite"] == suite]
            if suite not in found or run["date"] > found[suite].run["date"]:
                found[suite] = Record(path.name, run, rows)
    return found


def slug(name: str) -> str:
    """A name as a part of a file's name."""
    return re.sub(r"\W+", "_", name.lower()).strip("_")
