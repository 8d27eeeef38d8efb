"""Prints the speed table and keeps a record of it: `python -m benchmarks [suite ...]`."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import re
import subprocess
import sys
import textwrap
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from benchmarks.measure import Row, digits, processor
from benchmarks.real.fetch import Unavailable

SUITES = (
    "kernels_products",
    "kernels_stream",
    "kernels_planes",
    "kernels_gates",
    "ot",
    "transport",
    "protocols",
    "kept",
    "public_record",
    "networks",
    "programs",
)
# Long ones, that run when they are named, or the group is; they need what real/fetch.py can get.
GROUPS = {
    "real": (
        "real.training",
        "real.cifar10",
        "real.resnet50",
        "real.full_size",
        "real.truncation",
        "real.language",
        "real.sentiment",
        "real.speech",
    ),
    "gpu": ("gpu_kernels",),
}
NAMED = (
    "additive",
    "additive_gpu",
    "crypten",
    "cryptgpu",
    "deployed",
    "first_calls",
    "goten",
    "goten_accuracy",
    "goten_overflow",
    "halves",
    "join",
    "kernels_enclave",
    "kernels_levels",
    "pigeon",
    "placements",
    "quad",
    "quad_gpu",
    "large_batches",
    "real.ring16",
    "rehearsal",
    "rounds",
    "table_statistics",
    "stored_runs",
    "throughput",
    "tiles",
    "two_parties",
    *(suite for group in GROUPS.values() for suite in group),
)
WITH_PARTS = ("crypten", "deployed", "pigeon", "quad")  # of which --only runs some cases
RESULTS = Path(__file__).parent / "results"
NOTE: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    "}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = [[], *SUITES, *GROUPS, *NAMED]
    parser.add_argument("suites", nargs="*", choices=known, help="default: all but real and gpu")
    parser.add_argument("--protocol", help="of suites of `real`; default: trio")
    parser.add_argument("--parties", type=int, help="how many, of suites of `real`")
    parser.add_argument(
        "--only",
        metavar="TEXT",
        nargs="+",
        help="cases of a suite with one of these in their names",
    )
    parser.add_argument("--remark", default="", help="what a reader of the record should know")
    arguments = parser.parse_args()
    chosen = arguments.suites or SUITES
    suites = [suite for name in chosen for suite in GROUPS.get(name, (name,))]
    wanted = {"protocol": arguments.protocol, "parties": arguments.parties}
    options: dict[str, Any] = {k: value for k, value in wanted.items() if value is not None}
    if options and not set(suites) <= set(GROUPS["real"]):
        parser.error("--protocol and --parties are for the suites of `real`")
    if arguments.only is not None:
        if len(suites) != 1 or suites[0] not in WITH_PARTS:
            parser.error("--only is for one of the suites " + ", ".join(WITH_PARTS))
        options["only"] = arguments.only
    labels = [*options.get("only", ()), *(str(v) for k, v in options.items() if k != "only")]
    record = {"run": describe() | {"remark": arguments.remark}, "rows": []}
    for suite in suites:
        rows, title = [], " ".join([suite, *labels])
        try:
            for row in importlib.import_module(f"benchmarks.{suite}").rows(**options):
                rows.append(row)
                added = {"suite": title, **asdict(row), "ratio": row.ratio, "met": row.met}
                record["rows"].append(added)
                path = save(record, (*chosen, *labels))  # a run that is cut keeps what it has
        except Unavailable as missing:
            print(f"\n{suite}: left out: {missing}")
            continue
        print(table(title, rows), flush=True)
    if record["rows"]:
        print(f"recorded in {path}")


def table(suite: str, rows: list[Row]) -> str:
    lines = [f"\n{suite}", f"{'':<50} {'value':>8} {'':<13} {'ratio':>7}  {'target':>8}  baseline"]
    for row in rows:
        sign = "<=" if row.lower_is_better else ">="
        target = "" if row.target is None else f"{sign} {digits(row.target)}"
        missed = "  MISSED" if row.met is False else ""
        lines.append(
            f"{row.name:<50} {digits(row.value):>8} {row.unit:<13} {digits(row.ratio):>7}  "
            f"{target:>8}  {row.baseline} {digits(row.baseline_value)}{missed}"
        )
        lines += [textwrap.fill(row.note, 110, **NOTE)] if row.note else []
    return "\n".join(lines)


def describe() -> dict[str, Any]:
    """When, where and on what: a figure without these is a rumour."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": "python -m benchmarks " + " ".join(sys.argv[1:]),
        "commit": git("rev-parse", "HEAD"),
        "clean": git("status", "--porcelain", "--", ":/src", ":/csrc", ":/benchmarks/*.py") == "",
        "machine": platform.machine(),
        "processor": processor(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=RESULTS)
    return found.stdout.strip()


def save(record: dict[str, Any], suites: tuple[str, ...]) -> Path:
    name = "all" if tuple(suites) == SUITES else "-".join(suites)
    name = re.sub(r"[^\w.-]+", "_", name)[:100]
    path = RESULTS / f"{record['run']['date'][:10]}-{platform.machine()}-{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
