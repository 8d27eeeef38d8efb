"""Comparisons in one run: the calls take turns, so that all see the same machine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import floor, isfinite, log10
from statistics import median
from typing import TypeVar

import torch

from tacit import Session
from tacit.kernels import num_threads, set_num_threads

REPETITIONS = 9
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: a figure beside a baseline that was measured in the same run.

    `ratio` is the figure over the baseline's; `target` is what the ratio must reach, or must not
    exceed where lower is better.
    """

    name: str
    value: float
    unit: str
    baseline: str
    baseline_value: float
    note: str = ""
    target: float | None = None
    lower_is_better: bool = False

    @property
    def ratio(self) -> float:
        return self.value / self.baseline_value

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.ratio <= self.target if self.lower_is_better else self.ratio >= self.target


def processor() -> str:
    """The processor's name and number of cores, as the system tells them."""
    found = subprocess.run(["lscpu"], capture_output=True, text=True)
    fields = dict(line.split(":", 1) for line in found.stdout.splitlines() if ":" in line)
    return f"{fields.get('Model name', '?').strip()}, {fields.get('CPU(s)', '?').strip()} cores"


def digits(value: float) -> str:
    """Three digits that count, and all before the point."""
    places = 2 - floor(log10(abs(value))) if value and isfinite(value) else 0
    return f"{value:.{max(places, 0)}f}"


def rate(
    name: str,
    amount: float,
    unit: str,
    seconds: dict[str, float],
    pair: tuple[str, str],
    *,
    target: float | None = None,
    note: str = "",
) -> Row:
    """What the first of a pair does of `amount` in a nanosecond, beside the second."""
    ours, base = pair
    return Row(
        name=name,
        value=amount / seconds[ours] / 1e9,
        unit=unit,
        baseline=base,
        baseline_value=amount / seconds[base] / 1e9,
        target=target,
        note=note,
    )


def interleaved(
    calls: dict[str, Callable[[], object]], *, repetitions: int = REPETITIONS
) -> dict[str, float]:
    """The median seconds of each call, after one that touches the memory."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repetition in range(repetitions + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            if repetition > 0:
                seconds[name].append(time.perf_counter() - begin)
    return {name: median(values) for name, values in seconds.items()}


def replayed_ms(
    call: Callable[[], torch.Tensor], session: Session, *, warm_up: int, repetitions: int
) -> tuple[float, torch.Tensor]:
    """The median milliseconds of a call that all parties begin together; its result."""
    seconds = []
    for repetition in range(warm_up + repetitions):
        _wait_for_gpu(session)
        session.mesh.compare()
        begin = time.perf_counter()
        result = call()
        session.numbers.settled(result.value)  # type: ignore[attr-defined]
        _wait_for_gpu(session)
        if repetition >= warm_up:
            seconds.append(time.perf_counter() - begin)
    return median(seconds) * 1e3, result


def _wait_for_gpu(session: Session) -> None:
    if session.device.type == "cuda":
        torch.cuda.synchronize()


def chosen(cases: Sequence[tuple[str, T]], only: Sequence[str]) -> list[tuple[str, T]]:
    """The cases with one of these texts in their names, or all if there is no text."""
    found = [case for case in cases if is_chosen(case[0], only)]
    if not found:
        raise SystemExit(f"no case of the suite has {' or '.join(map(repr, only))} in its name")
    return found


def is_chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(text.lower() in name.lower() for text in only)


@contextmanager
def elapsed(name: str) -> Iterator[None]:
    """Prints how long a case takes in all, with what is made and shared before it is measured."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        print(f"  {name}: {time.perf_counter() - begin:.1f} s in all", flush=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Everything on one core."""
    before = num_threads(), torch.get_num_threads()
    set_num_threads(1)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(before[0])
        torch.set_num_threads(before[1])


def words(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Full-range ring elements to measure with."""
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max, shape, dtype=dtype)
