"""The page of failures, from what tests/deployment saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SEEN = Path(__file__).parent / "reference" / "failures.json"
TEXT = """\
What happens to a training of three parties, each with the real command line in a process of its
own, when something fails; in the second table, of two parties and a dealer, `dora`. All of it is
tested: `tests/deployment` does each of these, compares exit codes and errors with this page, and
resumes. In the end no step is missing, and every loss is that of plain torch. The party file has
`deadline = 5`. For links, each party has a network namespace with an address of its own.

Each cell has the exit code, the error, and the seconds until the process has ended: after the
failure or, in cases marked with \\*, after the command was given, most of which is Python and torch
being loaded. What to do about an error text: [troubleshooting](../troubleshooting.md). What exit
codes mean: [command line](cli.md)."""


def failures_page() -> str:
    content = json.loads(SEEN.read_text())
    cases = content["cases"].values()
    lines = ["# Failures", "", TEXT, ""]
    for names in dict.fromkeys(tuple(case["parties"]) for case in cases):
        lines += [*matrix([case for case in cases if tuple(case["parties"]) == names]), ""]
    for case in cases:
        lines += words(case)
    return "\n".join(lines)


def matrix(cases: list[dict[str, Any]]) -> list[str]:
    """A row for each case, a column for each party."""
    columns = ["case", *cases[0]["parties"], "then"]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for case in cases:
        cells = [cell(one) for one in case["parties"].values()]
        lines.append(f"| {' | '.join([case['case'], *cells, case['then']])} |")
    return lines


def cell(one: dict[str, Any]) -> str:
    error = f"`{one['error']}`, " if one["error"] else ""
    return f"**{one['exit_code']}**, {error}{one['seconds']:.1f} s"


def words(case: dict[str, Any]) -> list[str]:
    """What the parties say in a case, if anything."""
    said = [f"- {name}: `{one['says']}`" for name, one in case["parties"].items() if one["says"]]
    seen = f"Seen on {case['date']} ({case['machine']})."
    return [f"## {case['case']}", "", *(said or ["No party reports an error."]), "", seen, ""]
