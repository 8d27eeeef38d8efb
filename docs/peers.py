"""The page of figures beside other systems, from the records under benchmarks/results/."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from docs.records import RESULTS, Record, newest

# Of two measurements of a case, the one in which nobody promises how large the numbers are.
UNPROMISED = {
    "ReLU of 1,000,000": "ReLU of 1,000,000, nothing promised",
    "max-pool 2 x 2 of (1,64,64,64)": "the same, nothing promised",
}
TEXT = """\
Seconds, less is better. What stands in one row was not always measured in one run: the heads say
what was. Parties share one machine and talk over loopback or, those of Tacit, in one process, so
these are figures of computation, not of networks. [Comparison](../comparison.md) says what else
there is to compare, and [speed](speed.md) has all of Tacit's records."""

RECORDED = """\
Its parties are threads of one process, and `session.repeated` starts the work of all three as one
recorded graph; not recorded, each operation is started from Python. The others' parties are
processes."""


def peers_page() -> str:
    peers = json.loads((RESULTS / "peers.json").read_text())
    return "\n".join(["# Beside other systems", "", TEXT, "", *cpu(peers), *gpu(peers)])


def by_name(*records: Record) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for record in records for row in record.rows}


def cpu(peers: dict[str, Any]) -> list[str]:
    """Tacit and SPU took turns in one run; the others come from the list of peers."""
    suites, part = newest(), peers["cpu"]
    operations, networks = suites["protocols"], suites["networks"]
    rows = by_name(operations, networks)
    sources = " and ".join(sorted({operations.source, networks.source}))
    lines = [
        "## On a CPU",
        "",
        f"Tacit and SPU 0.9.5 (ABY3, TCP), in turns in one run: {sources}.",
        "",
    ]
    lines += systems(peers, part)
    lines += table(["case", "Tacit, trio", "SPU", "CrypTen", "PIGEON"])
    for name, others in part["cases"].items():
        row = rows[UNPROMISED.get(name, name)]
        alone = [seconds(others[one]) for one in ("crypten", "pigeon")]
        own = [f"{1 / row['value']:.3f}", f"{1 / row['baseline_value']:.3f}"]  # runs a second
        lines.append(f"| {' | '.join([name, *own, *alone])} |")
    return [*lines, ""]


def gpu(peers: dict[str, Any]) -> list[str]:
    own, part = newest()["cryptgpu"], peers["gpu"]
    rows = by_name(own)
    lines = ["## On a GPU", "", f"Tacit: one NVIDIA H200; {own.source}. {RECORDED}", ""]
    lines += systems(peers, part)
    lines += [f"**wrong**: {part['wrong']}.", ""]
    others = ["CryptGPU", "CrypTen, 2 parties", "CrypTen, 3 parties"]
    lines += table(["case", "Tacit, recorded", "Tacit, not recorded", *others])
    for name, measured in part["cases"].items():
        row = rows[name]
        as_it_is = re.match(r"not recorded ([0-9.]+) s", row["note"])
        ours = [f"{row['value']:.3f}", as_it_is[1] if as_it_is else ""]
        found = [marked(measured[one]) for one in ("cryptgpu", "crypten2", "crypten3")]
        lines.append(f"| {' | '.join([name, *ours, *found])} |")
    return [*lines, ""]


def systems(peers: dict[str, Any], part: dict[str, Any]) -> list[str]:
    names = [f"- {text}." for text in part["systems"].values()]
    head = f"The others, each alone, noted on {peers['noted']} (`peers.json`): {part['machine']}."
    return [head, "", *names, ""]


def table(columns: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]


def seconds(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def marked(found: list[Any] | None) -> str:
    if found is None:
        return ""
    value, remark = found
    return f"{value:g}{' **wrong**' if remark else ''}"
