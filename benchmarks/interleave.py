"""Comparisons in one run: the calls take turns, so that all see the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

REPETITIONS = 7


def interleaved(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median seconds of each call, after one that touches the memory."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repetition in range(REPETITIONS + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            if repetition > 0:
                seconds[name].append(time.perf_counter() - begin)
    return {name: median(values) for name, values in seconds.items()}


def bandwidth_row(
    name: str,
    num_bytes: int,
    seconds: float,
    *,
    baseline: tuple[str, float],
    target: float | None,
    note: str,
) -> dict[str, Any]:
    """One line of the table; the baseline is its name and its seconds for the same bytes."""
    return {
        "name": name,
        "value": num_bytes / seconds / 1e9,
        "unit": "GB/s",
        "baseline": baseline[0],
        "baseline_value": num_bytes / baseline[1] / 1e9,
        "ratio": baseline[1] / seconds,
        "target": target,
        "note": note,
    }
