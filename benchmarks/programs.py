"""What users run, in the deployment that users have: three processes with TLS on this machine.

Each row is a whole program step beside the same step in plain torch: many small operations (what
dispatch costs), an inference, and training steps with torch's own optimizers. The note gives the
bytes and rounds of each party, so that two versions can be compared (benchmarks/versions.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from benchmarks.measure import Row
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import tacit
from tacit import zoo

REPETITIONS = 5
Step = Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """What one party measured of a step: median seconds, bytes sent, rounds."""

    seconds: float
    bytes_sent: int
    rounds: int


def small_operations(x: Tensor, model: nn.Module) -> Step:
    """200 additions and public products of 64 elements: no message, so only dispatch counts."""

    def step() -> None:
        y = x
        for _ in range(100):
            y = y + 1.0
            y = y * 0.5

    return step


def inference(x: Tensor, model: nn.Module) -> Step:
    def step() -> None:
        with torch.no_grad():
            model(x).argmax(1)

    return step


def training(optimizer: type[torch.optim.Optimizer]) -> Callable[[Tensor, nn.Module], Step]:
    def make(x: Tensor, model: nn.Module) -> Step:
        labels = torch.arange(len(x)) % 10
        chosen = optimizer(model.parameters(), lr=0.01)  # type: ignore[call-arg]

        def step() -> None:
            chosen.zero_grad()
            cross_entropy(model(x), labels).backward()
            chosen.step()

        return step

    return make


CASES: dict[str, tuple[tuple[int, ...], Callable[[Tensor, nn.Module], Step]]] = {
    "200 small operations": ((64,), small_operations),
    "LeNet, batch 1, inference": ((1, 1, 28, 28), inference),
    "LeNet, batch 64, inference": ((64, 1, 28, 28), inference),
    "LeNet, batch 16, training step, SGD": ((16, 1, 28, 28), training(torch.optim.SGD)),
    "LeNet, batch 16, training step, Adam": ((16, 1, 28, 28), training(torch.optim.Adam)),
}


def party(session: tacit.Session, name: str) -> Measured:
    """Runs one case at one party; the first call is not measured."""
    shape, make = CASES[name]
    torch.manual_seed(1)
    model = session.share(zoo.lenet(), owner=0)
    step = make(session.share(torch.rand(shape), owner=1), model)
    step()
    with session.stats.scope(name) as cost:
        seconds = timed(step)
    sent, rounds = cost.bytes_sent // REPETITIONS, cost.rounds // REPETITIONS
    return Measured(seconds, sent, rounds)


def timed(step: Step) -> float:
    seconds = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return median(seconds)


def plain_seconds(name: str) -> float:
    shape, make = CASES[name]
    torch.manual_seed(1)
    step = make(torch.rand(shape), zoo.lenet())
    step()
    return timed(step)


def row(name: str) -> Row:
    parties = tacit.run(party, name, transport="processes")
    return Row(
        name=name,
        value=1e3 * max(one.seconds for one in parties),
        unit="ms",
        baseline="plain torch",
        baseline_value=1e3 * plain_seconds(name),
        lower_is_better=True,
        note="bytes sent by each party: "
        + ", ".join(f"{one.bytes_sent:,}" for one in parties)
        + "; rounds: "
        + ", ".join(str(one.rounds) for one in parties),
    )


def rows() -> list[Row]:
    return [row(name) for name in CASES]
