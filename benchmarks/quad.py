"""Four parties, one of whom may cheat (`quad`), beside three honest ones (`trio`), taking turns.

Threads of this process, then processes with TLS. Seconds are of the slowest party, and those of
`quad` include the comparison of all views; processor seconds are of all parties together. Quad
multiplies 12 times where trio does 5 times: 3 products at each of four parties.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
from benchmarks.measure import Row
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm

TURNS = 3
PARTIES = {"trio": 3, "quad": 4}
REPETITIONS = {"relu": 5, "lenet": 9, "vgg16": 5, "resnet18": 1}
NAMES = {
    "relu": "ReLU of 1,000,000",
    "lenet": "LeNet, batch 1",
    "vgg16": "VGG-16, CIFAR-10, batch 1",
    "resnet18": "ResNet-18, 224 x 224, batch 1",
}


class Measured(NamedTuple):
    """Median seconds of a call at one party, and processor seconds of its process."""

    seconds: float
    processor: float


def network(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> Callable[..., Any]:
    def prepared(session: tacit.Session) -> Callable[[], Tensor]:
        torch.manual_seed(3)
        model = session.share(fold_batch_norm(make().eval()).eval(), owner=0)
        x = session.share(torch.rand(shape) * 2 - 1, owner=1)
        return lambda: model(x)

    return prepared


def relu(session: tacit.Session) -> Callable[[], Tensor]:
    x = session.share(torch.randn(1_000_000) * 4, owner=0)
    return lambda: torch.relu(x)


CASES: dict[str, Callable[..., Any]] = {
    "relu": relu,
    "lenet": network(zoo.lenet, (1, 1, 28, 28)),
    "vgg16": network(zoo.small_vgg, (1, 3, 32, 32)),
    "resnet18": network(zoo.resnet18, (1, 3, 224, 224)),
}


def party(session: tacit.Session, case: str) -> Measured:
    """Times a case at one party; the first two calls, which encode weights, are not measured."""
    torch.set_num_threads(1)
    seconds, processor = [], []
    with torch.no_grad():
        call = CASES[case](session)
        for repetition in range(-2, REPETITIONS[case]):
            session.mesh.compare()
            begin, used = time.perf_counter(), time.process_time()
            session.numbers.settled(call().value)  # type: ignore[attr-defined]
            session.protocol.verify()
            if repetition >= 0:
                seconds.append(time.perf_counter() - begin)
                processor.append(time.process_time() - used)
    return Measured(median(seconds), median(processor))


def measured(case: str, protocol: str, transport: str) -> Measured:
    settings: dict[str, Any] = {"protocol": protocol, "parties": PARTIES[protocol]}
    found = tacit.run(party, case, transport=transport, deadline=300.0, **settings)
    seconds, processor = zip(*found, strict=True)
    return Measured(max(seconds), sum(processor) if transport == "processes" else max(processor))


def row(case: str, transport: str) -> Row:
    turns = [[measured(case, protocol, transport) for protocol in PARTIES] for _ in range(TURNS)]
    trio, quad = (
        Measured(*map(median, zip(*column, strict=True))) for column in zip(*turns, strict=True)
    )
    return Row(
        name=f"{NAMES[case]}, {transport}",
        value=quad.seconds,
        unit="s",
        baseline="trio",
        baseline_value=trio.seconds,
        lower_is_better=True,
        note=f"processor seconds of all parties: {quad.processor:.3g} to {trio.processor:.3g}",
    )


def rows() -> list[Row]:
    return [row(case, transport) for case in CASES for transport in ("threads", "processes")]
