"""Two reports of runs, compared: what got cheaper, what dearer, and what is revealed anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .party_report import KINDS
from .report_file import Report, read_report, write_page

COMPARISON = "tacit comparison 1"

# The numbers of a whole run, each of the party that has most, or of all parties together.
TOTALS: Mapping[str, Callable[[list[float]], float]] = {
    "seconds": max,
    "computing": max,
    "sending": max,
    "waiting": max,
    "rounds": max,
    "bytes_sent": sum,
}


@dataclass(frozen=True)
class Change:
    """One number of two runs. name: such as "rounds"."""

    name: str
    before: float
    after: float

    @property
    def ratio(self) -> float | None:
        """How many times the first number the second one is; None if the first is 0."""
        return self.after / self.before if self.before else None


def compare_reports(before: Path, after: Path, output: Path) -> list[Change]:
    """Writes a page that compares two reports, and returns how the numbers of the runs changed."""
    first, second = (_summary(read_report(path), path.name) for path in (before, after))
    title = f"{before.name} and {after.name}"
    write_page(output, {"format": COMPARISON, "title": title, "before": first, "after": second})
    return [Change(name, first["totals"][name], second["totals"][name]) for name in TOTALS]


def _summary(report: Report, file: str) -> dict[str, Any]:
    """Returns what a comparison shows of a report: everything but what happened when."""
    parties = report["parties"]
    return {
        **{
            name: report[name]
            for name in ("title", "protocol", "time", "tacit", "names", "num_parties")
        },
        "file": file,
        "totals": {name: of([p[name] for p in parties] or [0]) for name, of in TOTALS.items()},
        "parts": _parts(parties),
        "reveals": parties[0]["reveals"] if parties else [],
        "peak": max((party["memory"]["peak"] for party in parties), default=0),
    }


def _parts(parties: list[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns the numbers of each part of the program; its times are those of one party."""
    by_part: dict[str, list[dict[str, float]]] = {}
    for index, party in enumerate(parties):
        for place in party["places"]:
            rows = by_part.setdefault(place["part"], [dict.fromkeys(TOTALS, 0) for _ in parties])
            numbers = {**place, "seconds": sum(place[kind] for kind in KINDS)}
            for name in TOTALS:
                rows[index][name] += numbers[name]
    return {part: _together(rows) for part, rows in by_part.items()}


def _together(rows: list[dict[str, float]]) -> dict[str, float]:
    """Returns the times of the slowest party, the most rounds, and the bytes of all."""
    slowest = max(rows, key=lambda row: row["seconds"])
    rounds, sent = max(row["rounds"] for row in rows), sum(row["bytes_sent"] for row in rows)
    return {**slowest, "rounds": rounds, "bytes_sent": sent}
