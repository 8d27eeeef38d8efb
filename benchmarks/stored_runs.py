"""Two parties with stored runs, beside the same two with a dealer online, taking turns.

Each party, and the dealer, is a process with TLS over TCP, with one thread. A run is some
inferences; its files are made before, in the folder of the run, and are not timed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from benchmarks.measure import Row
from torch import nn

import tacit
from tacit import zoo

TURNS, REPETITIONS = 3, 4
SETTINGS: dict[str, Any] = {"parties": 2, "protocol": "additive", "transport": "processes"}
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LeNet, a picture": (zoo.lenet, (1, 1, 28, 28)),
    "LeNet, 32 pictures": (zoo.lenet, (32, 1, 28, 28)),
}


class Measured(NamedTuple):
    """Median seconds of an inference, megabytes received in it, and megabytes from the file."""

    seconds: float
    received: float
    stored: float


def party(session: tacit.Session, case: str) -> Measured:
    """Times inferences at one party; the first is not measured."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    make, shape = CASES[case]
    model, x = session.share(make().eval(), owner=0), session.share(torch.rand(shape), owner=1)
    seconds = []
    with torch.no_grad():
        for _ in range(REPETITIONS + 1):
            before = session.stats.bytes_preprocessed
            with session.stats.scope(case) as cost:
                begin = time.perf_counter()
                session.reveal(model(x))
                seconds.append(time.perf_counter() - begin)
    stored = session.stats.bytes_preprocessed - before
    return Measured(median(seconds[1:]), cost.bytes_received / 1e6, stored / 1e6)


def slowest(found: list[Measured]) -> Measured:
    return Measured(*(max(column) for column in zip(*found, strict=True)))


def row(case: str) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        tacit.preprocess(party, case, folder=folder, runs=TURNS, **SETTINGS)
        making = (time.perf_counter() - begin) / TURNS
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.run")) / TURNS / 1e6
        turns = []
        for _ in range(TURNS):
            online = slowest(tacit.run(party, case, **SETTINGS))
            stored = slowest(tacit.run(party, case, preprocessed=folder, **SETTINGS))
            turns.append((stored, online))
    stored, online = (
        Measured(*map(median, zip(*column, strict=True))) for column in zip(*turns, strict=True)
    )
    return Row(
        name=f"{case}, from a stored run",
        value=1000 * stored.seconds,
        unit="ms",
        baseline="dealer online",
        baseline_value=1000 * online.seconds,
        lower_is_better=True,
        note=f"the busiest party receives {stored.received:.2f} MB and reads {stored.stored:.2f} "
        f"from its file, where it received {online.received:.2f}; a run of {REPETITIONS + 1} took "
        f"{making:.1f} s to make and {size:.1f} MB at both parties",
    )


def rows() -> list[Row]:
    return [row(case) for case in CASES]
