"""Where the time of a training step in an enclave goes: by layer, forward and backward.

A layer begins when the one before has ended: forward, when it is called; backward, when the
gradient of its result is there. Loss and optimizer have rows of their own. The clock is the
enclave's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.measure import Row
from torch import Tensor, nn
from torch.optim import Optimizer

# Phases of a product, as columns; the rest of a layer's time is "other".
COLUMNS = {
    "wait": ("wait", "send"),
    "quantise": ("quantise", "dequantise"),
    "mask": ("mask",),
    "unmask": ("unmask",),
    "check": ("check",),
    "inside": ("inside",),
}
OTHER, TOTAL = "other", "all"
Spent = dict[str, Counter[str]]  # seconds of each column, by section


class Sections:
    """A clock that gives all time to the section that began last.

    `seconds`: the seconds of all products so far, by phase.
    """

    def __init__(self, seconds: Callable[[], dict[str, float]]) -> None:
        self.spent: Spent = {}
        self._seconds = seconds
        self._name: str | None = None
        self._before: tuple[float, dict[str, float]] = (0.0, {})

    def begin(self, name: str | None) -> None:
        """Ends the section before, and begins one; none, if the name is None."""
        now, phases = time.perf_counter(), dict(self._seconds())
        if self._name is not None:
            self._add(now - self._before[0], phases)
        self._name, self._before = name, (now, phases)

    def _add(self, whole: float, phases: dict[str, float]) -> None:
        columns = self.spent.setdefault(str(self._name), Counter())
        gone = {p: phases[p] - self._before[1].get(p, 0.0) for p in phases}
        parts = {name: sum(gone.get(p, 0.0) for p in these) for name, these in COLUMNS.items()}
        columns.update(parts | {OTHER: whole - sum(parts.values()), TOTAL: whole})


@contextmanager
def measured_layers(model: nn.Module, optimizer: Optimizer, sections: Sections) -> Iterator[None]:
    """Begins a section with each layer of a model whose layers follow one another."""
    handles = [optimizer.register_step_pre_hook(lambda *_: sections.begin("optimizer"))]
    for path, layer in model.named_modules():
        if not [*layer.children()]:
            name = f"{path} {type(layer).__name__}"
            handles.append(layer.register_forward_pre_hook(_beginning(sections, name)))
            handles.append(layer.register_forward_hook(_returning(sections, name)))
    sections.begin("before the layers")
    try:
        yield
    finally:
        sections.begin(None)
        for handle in handles:
            handle.remove()


def _beginning(sections: Sections, name: str) -> Callable[[nn.Module, Any], None]:
    return lambda _layer, _inputs: sections.begin(f"{name}, forward")


def _returning(sections: Sections, name: str) -> Callable[[nn.Module, Any, Tensor], None]:
    def returned(_layer: nn.Module, _inputs: object, result: Tensor) -> None:
        sections.begin("loss, and between layers")
        if result.requires_grad:
            result.register_hook(lambda _grad: sections.begin(f"{name}, backward"))

    return returned


def table(spent: Spent, steps: int) -> str:
    """Returns the milliseconds of a step, a line for each section."""
    columns = [*COLUMNS, OTHER, TOTAL]
    lines = [f"{'ms a step':<36}" + "".join(f"{name:>10}" for name in columns)]
    for name, seconds in spent.items():
        numbers = "".join(f"{seconds[column] / steps * 1e3:>10.1f}" for column in columns)
        lines.append(f"{name:<36}{numbers}")
    return "\n".join(lines)


def layer_rows(case: str, spent: Spent, steps: int) -> list[Row]:
    """Rows for the record: the milliseconds of each section beside those of the step."""
    whole = sum(seconds[TOTAL] for seconds in spent.values())
    return [
        Row(
            name=f"{case}: {name}",
            value=seconds[TOTAL] / steps * 1e3,
            unit="ms",
            baseline="the step",
            baseline_value=whole / steps * 1e3,
            lower_is_better=True,
            note=", ".join(parts_in_ms(seconds, steps)),
        )
        for name, seconds in spent.items()
    ]


def parts_in_ms(seconds: Counter[str], steps: int) -> Sequence[str]:
    """Returns the columns of a step that take at least 0.05 ms."""
    parts = [(name, seconds[name] / steps * 1e3) for name in [*COLUMNS, OTHER]]
    return [f"{name} {value:.1f}" for name, value in parts if value >= 0.05]
