"""The page of figures beside other systems, from the records under benchmarks/results/."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from docs.charts import Figure, grouped_bars
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


CPU_SYSTEMS = ("Tacit, trio", "SPU", "CrypTen", "PIGEON")
GPU_SYSTEMS = (
    "Tacit, recorded",
    "Tacit, not recorded",
    "CryptGPU",
    "CrypTen, 2 parties",
    "CrypTen, 3 parties",
)
Cases = dict[str, list[Figure | None]]


def peers_page() -> str:
    peers = listed()
    return "\n".join(["# Beside other systems", "", TEXT, "", *cpu(peers), *gpu(peers)])


def peers_charts() -> dict[str, str]:
    """By the name of the file."""
    peers = listed()
    return {
        "peers_cpu.svg": grouped_bars("seconds", CPU_SYSTEMS, cpu_cases(peers)),
        "peers_gpu.svg": grouped_bars("seconds", GPU_SYSTEMS, gpu_cases(peers)),
    }


def listed() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "peers.json").read_text())
    return found


def by_name(*records: Record) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for record in records for row in record.rows}


def cpu_cases(peers: dict[str, Any]) -> Cases:
    """Tacit and SPU took turns in one run; the others come from the list of peers."""
    suites = newest()
    rows, cases = by_name(suites["protocols"], suites["networks"]), {}
    for name, others in peers["cpu"]["cases"].items():
        row = rows[UNPROMISED.get(name, name)]  # in runs a second
        times = [1 / row["value"], 1 / row["baseline_value"], others["crypten"], others["pigeon"]]
        cases[name] = [None if time is None else Figure(time) for time in times]
    return cases


def gpu_cases(peers: dict[str, Any]) -> Cases:
    rows, cases = by_name(newest()["cryptgpu"]), {}
    for name, measured in peers["gpu"]["cases"].items():
        row = rows[name]
        as_it_is = re.match(r"not recorded ([0-9.]+) s", row["note"])
        own = [Figure(row["value"]), Figure(float(as_it_is[1])) if as_it_is else None]
        others = [measured[one] for one in ("cryptgpu", "crypten2", "crypten3")]
        cases[name] = [
            *own,
            *(Figure(o[0], "wrong" if o[1] else "") if o else None for o in others),
        ]
    return cases


def marked(found: list[Any] | None) -> Figure | None:
    return Figure(found[0], "wrong" if found[1] else "") if found else None


def cpu(peers: dict[str, Any]) -> list[str]:
    suites, part = newest(), peers["cpu"]
    sources = " and ".join(sorted({suites[name].source for name in ("protocols", "networks")}))
    lines = [
        "## On a CPU",
        "",
        "![Seconds of each system on a CPU](../drawings/peers_cpu.svg)",
        "",
        f"Tacit and SPU 0.9.5 (ABY3, TCP), in turns in one run: {sources}.",
        "",
    ]
    return [*lines, *systems(peers, part), *table(CPU_SYSTEMS, cpu_cases(peers)), ""]


def gpu(peers: dict[str, Any]) -> list[str]:
    own, part = newest()["cryptgpu"], peers["gpu"]
    lines = [
        "## On a GPU",
        "",
        "![Seconds of each system on a GPU](../drawings/peers_gpu.svg)",
        "",
        f"Tacit: one NVIDIA H200; {own.source}. {RECORDED}",
        "",
        *systems(peers, part),
        f"**wrong**: {part['wrong']}.",
        "",
    ]
    return [*lines, *table(GPU_SYSTEMS, gpu_cases(peers)), ""]


def systems(peers: dict[str, Any], part: dict[str, Any]) -> list[str]:
    names = [f"- {text}." for text in part["systems"].values()]
    head = f"The others, each alone, noted on {peers['noted']} (`peers.json`): {part['machine']}."
    return [head, "", *names, ""]


def table(columns: Sequence[str], cases: Cases) -> list[str]:
    lines = [f"| case | {' | '.join(columns)} |", f"|{'---|' * (len(columns) + 1)}"]
    return lines + [f"| {name} | {' | '.join(map(cell, row))} |" for name, row in cases.items()]


def cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return figure.digits + (f" **{figure.remark}**" if figure.remark else "")
