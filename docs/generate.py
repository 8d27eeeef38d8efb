"""Writes the pages under docs/reference/ from the code and the newest benchmark record.

`python -m docs.generate` writes them; `--check` only says which are out of date.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tacit import errors, kernels
from tacit.transport import PROFILES

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
RESULTS = ROOT / "benchmarks" / "results"
HEAD = "<!-- Made by `make docs`; change the code, not this page. -->\n\n"


def errors_page() -> str:
    """Every error, under the error that it is a kind of."""
    lines = ["# Errors", "", (inspect.getdoc(errors) or "").split("\n\n")[-1], ""]

    def visit(error: type[errors.Error], depth: int) -> None:
        lines.append(f"{'  ' * depth}- `{error.__name__}`: {inspect.getdoc(error)}")
        for kind in error.__subclasses__():
            visit(kind, depth + 1)

    visit(errors.Error, 0)
    return "\n".join(lines) + "\n"


def kernels_page() -> str:
    """Every kernel with its signature."""
    lines = ["# Kernels", "", inspect.getdoc(kernels) or "", ""]
    for name in kernels.__all__:
        function = getattr(kernels, name)
        lines += [f"## {name}", "", f"`{name}{signature(function)}`", "", document(function), ""]
    return "\n".join(lines)


def signature(function: Callable[..., Any]) -> str:
    return str(inspect.signature(function)).replace("'", "")


def document(function: Callable[..., Any]) -> str:
    return inspect.getdoc(function.func if isinstance(function, partial) else function) or ""


def networks_page() -> str:
    """The named links of `network=`."""
    lines = ["# Networks", "", "What `tacit.run(..., network=name)` makes of every link.", ""]
    lines += ["| name | latency | bandwidth |", "|---|---|---|"]
    for name, link in PROFILES.items():
        fast = link.bandwidth == float("inf")
        bandwidth = "as it is" if fast else f"{link.bandwidth / 1e9:g} Gbit/s"
        lines.append(f"| `{name}` | {link.latency * 1e3:g} ms | {bandwidth} |")
    return "\n".join(lines) + "\n"


def speed_page() -> str:
    """The newest full record of the benchmarks."""
    path = max(RESULTS.glob("*-all.json"))
    record = json.loads(path.read_text())
    run = record["run"]
    machine = f"{run['processor']} ({run['machine']}), torch {run['torch']}"
    lines = [
        "# Speed",
        "",
        f"`make bench` on {run['date'][:10]}: {machine}, commit {run['commit'][:12]}. Each ratio "
        "was taken side by side in one run, on one thread unless a row says otherwise; the record "
        f"is `benchmarks/results/{path.name}`.",
        "",
        "| what | figure | ratio | to | target | |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        bound = "at most" if row["lower_is_better"] else "at least"
        target = "" if row["target"] is None else f"{bound} {row['target']:.2f}"
        missed = " **missed**" if row["met"] is False else ""
        figure = f"{row['value']:.2f} {row['unit']}"
        lines.append(
            f"| {row['name']} | {figure} | {row['ratio']:.2f} | {row['baseline']} "
            f"({row['baseline_value']:.2f}) | {target}{missed} | {row['note']} |"
        )
    return "\n".join(lines) + "\n"


MAKERS = {
    "errors.md": errors_page,
    "kernels.md": kernels_page,
    "networks.md": networks_page,
    "speed.md": speed_page,
}


def stale() -> list[str]:
    """The names of the pages that differ from what would be written now."""
    found = []
    for name, make in MAKERS.items():
        path = PAGES / name
        if not path.exists() or path.read_text() != HEAD + make():
            found.append(name)
    return found


def main() -> None:
    old = stale()
    if "--check" in sys.argv:
        sys.exit(f"out of date: {', '.join(old)}; run make docs" if old else 0)
    PAGES.mkdir(exist_ok=True)
    for name in old:
        (PAGES / name).write_text(HEAD + MAKERS[name]())
    print(f"written: {', '.join(old) or 'nothing new'}")


if __name__ == "__main__":
    main()
