"""The page of kernel speeds by processor, from the records of the suite `kernels_levels`."""

from __future__ import annotations

import json

from benchmarks.measure import digits
from docs.charts import Figure, grouped_bars
from docs.records import RESULTS, Record, slug

SUITE = "kernels_levels"
TEXT = """\
The compiled kernels are built at levels, sets of instructions that some processors have; the
fastest that runs is taken when they are loaded, and `TACIT_KERNELS` forces another
([configuration](configuration.md)). One core, the levels of a row in turns in one run. `python -m
benchmarks kernels_levels` measures every level that an installation has and the processor runs: all
of them with a wheel of `make wheel`. A processor with the VNNI of AVX2 and without AVX-512 runs
`avx2`: its byte products have no level of their own."""


def processors_page() -> str:
    lines = ["# Kernels by processor", "", TEXT, ""]
    for record in by_processor():
        lines += table(record)
    return "\n".join(lines)


def by_processor() -> list[Record]:
    """The newest record of each processor."""
    found: dict[str, Record] = {}
    for path in sorted(RESULTS.glob(f"*-{SUITE}*.json")):
        content = json.loads(path.read_text())
        record = Record(path.name, content["run"], content["rows"])
        before = found.get(record.run["processor"])
        if before is None or record.run["date"] >= before.run["date"]:
            found[record.run["processor"]] = record
    return [found[name] for name in sorted(found)]


def processors_charts() -> dict[str, str]:
    """By the name of the file."""
    return {chart_name(record): chart(record) for record in by_processor()}


def chart_name(record: Record) -> str:
    return f"kernels_{slug(record.run['processor'])}.svg"


def chart(record: Record) -> str:
    cases = figures(record)
    levels = list(next(iter(cases.values())))
    bars = {case: [Figure(found[level]) for level in levels] for case, found in cases.items()}
    return grouped_bars("as each name says", levels, bars)


def figures(record: Record) -> dict[str, dict[str, float]]:
    """The figure of each level by case, the slowest level first."""
    cases: dict[str, dict[str, float]] = {}
    for row in reversed(record.rows):
        case, _, level = row["name"].rpartition(", level ")
        cases.setdefault(f"{case}, {row['unit']}", {})[level] = row["value"]
    return dict(reversed(cases.items()))


def table(record: Record) -> list[str]:
    """A line for each case, a column for each level."""
    cases = figures(record)
    levels = list(next(iter(cases.values())))
    remark = f" {record.run['remark']}" if record.run.get("remark") else ""
    name = record.run["processor"]
    lines = [f"## {name}", "", f"{record.source}.{remark}", ""]
    lines += [f"![Speeds by level of {name}](../drawings/{chart_name(record)})", ""]
    lines += [f"| kernel | {' | '.join(levels)} |", "|---" * (len(levels) + 1) + "|"]
    for case, found in cases.items():
        lines.append(f"| {case} | {' | '.join(digits(found[level]) for level in levels)} |")
    return [*lines, ""]
