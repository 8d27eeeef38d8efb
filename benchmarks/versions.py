"""Two versions of Tacit beside each other, taking turns: has a change made anything slower?

    python -m benchmarks.versions OLD_FOLDER OLD_PYTHON [--turns 5] [suite ...]

OLD_FOLDER is a checkout of the older version, OLD_PYTHON an interpreter that has it installed. The
suites of `python -m benchmarks` run in fresh processes of both versions, one after the other; the
table compares the medians. A ratio above 1 means that this version is faster. Where a suite notes
bytes and rounds, the notes of the two versions have to be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.__main__ import RESULTS, SUITES, describe

HERE = Path(__file__).parents[1]
RUN = """
import importlib, json, sys
from dataclasses import asdict
rows = importlib.import_module(f"benchmarks.{sys.argv[1]}").rows()
print("ROWS", json.dumps([asdict(row) for row in rows]))
"""
TRAFFIC = re.compile(r"bytes sent by each party: .*|[\d.,]+ MB sent|\d+ rounds")


def measured(python: str, folder: Path, suite: str) -> dict[str, dict[str, Any]]:
    """The rows of a suite by name, from a fresh process; a suite only we have is run from here."""
    own = folder if (folder / "benchmarks" / f"{suite}.py").exists() else HERE
    found = subprocess.run(
        [python, "-c", RUN, suite],
        cwd=own,
        env=os.environ | {"PYTHONPATH": f"{own}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=True,
    )
    [line] = [line for line in found.stdout.splitlines() if line.startswith("ROWS ")]
    return {row["name"]: row for row in json.loads(line[5:])}


def compared(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of the table; `ratio` is above 1 where the new version is faster."""
    before, after = (median(row["value"] for row in rows) for rows in (old, new))
    faster = before / after if old[0]["lower_is_better"] else after / before
    traffic = [TRAFFIC.findall(rows[0]["note"]) for rows in (old, new)]
    return {
        "name": new[0]["name"],
        "unit": new[0]["unit"],
        "before": before,
        "after": after,
        "ratio": faster,
        "same_traffic": traffic[0] == traffic[1] if any(traffic) else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("old_folder", type=Path)
    parser.add_argument("old_python")
    parser.add_argument("suites", nargs="*", default=[])
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    sides = {"old": (arguments.old_python, arguments.old_folder), "new": (sys.executable, HERE)}
    lines = []
    for suite in arguments.suites or SUITES:
        rows: dict[str, list[dict[str, Any]]] = {"old": [], "new": []}
        for turn in range(arguments.turns):
            order = list(sides) if turn % 2 == 0 else list(reversed(sides))
            for side in order:
                rows[side].append(measured(*sides[side], suite))  # type: ignore[arg-type]
        for name in rows["new"][0]:
            line = compared(*([turn[name] for turn in rows[side]] for side in ("old", "new")))
            lines.append({"suite": suite, **line})
            traffic = {None: "", True: "same traffic", False: "OTHER TRAFFIC"}[line["same_traffic"]]
            print(
                f"{suite:<18} {name:<46} {line['before']:>9.4g} {line['after']:>9.4g} "
                f"{line['unit']:<12} x{line['ratio']:.3f}  {traffic}",
                flush=True,
            )
    old = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=arguments.old_folder, capture_output=True, text=True
    )
    about = describe() | {"old_commit": old.stdout.strip(), "turns": arguments.turns}
    path = RESULTS / "versions" / f"{about['date'][:10]}-{about['machine']}.json"
    path.parent.mkdir(exist_ok=True)
    if path.exists():  # suites that were measured in another call of this day stay
        measured_now = {line["suite"] for line in lines}
        before = json.loads(path.read_text())["rows"]
        lines = [line for line in before if line["suite"] not in measured_now] + lines
    path.write_text(json.dumps({"run": about, "rows": lines}, indent=1) + "\n")
    print(f"recorded in {path}")


if __name__ == "__main__":
    main()
