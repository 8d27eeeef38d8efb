"""The page of all measurements: the newest record of each suite, as a chart and a table."""

from __future__ import annotations

from benchmarks.measure import digits
from docs.charts import times_as_fast
from docs.records import Record, newest, slug

TEXT = """\
Each ratio was taken side by side in one run; kernels on one thread unless a row says otherwise.
`make bench` measures and writes the records. [Beside other systems](peers.md) has the figures that
most readers look for, and [performance](../guides/performance.md) what to do with them."""


def speed_page() -> str:
    lines = ["# Speed", "", TEXT, ""]
    charts = speed_charts()
    for suite, record in sorted(newest().items()):
        lines += [f"## {suite.rstrip(',')}", "", f"{record.source}.{remark(record)}", ""]
        if chart_name(suite) in charts:
            lines += [f"![Speeds of the suite {suite}](../drawings/{chart_name(suite)})", ""]
        lines += table(record)
    return "\n".join(lines)


def speed_charts() -> dict[str, str]:
    """By the name of the file."""
    charts = {chart_name(suite): times_as_fast(record) for suite, record in newest().items()}
    return {name: chart for name, chart in charts.items() if chart}


def chart_name(suite: str) -> str:
    return f"speed_{slug(suite)}.svg"


def remark(record: Record) -> str:
    return f" {record.run['remark']}" if record.run.get("remark") else ""


def table(record: Record) -> list[str]:
    lines = ["| what | figure | ratio | to | target | |", "|---|---|---|---|---|---|"]
    for row in record.rows:
        bound = "at most" if row["lower_is_better"] else "at least"
        target = "" if row["target"] is None else f"{bound} {digits(row['target'])}"
        missed = " **missed**" if row["met"] is False else ""
        figure = f"{digits(row['value'])} {row['unit']}"
        lines.append(
            f"| {row['name']} | {figure} | {digits(row['ratio'])} | {row['baseline']} "
            f"({digits(row['baseline_value'])}) | {target}{missed} | {row['note']} |"
        )
    return [*lines, ""]
