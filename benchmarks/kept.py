"""Private inference with weights that each party keeps prepared, beside the same without.

Three parties in this process, trio and replicated, one picture; the two take turns in one session.
Figures are seconds of processor time of all parties together: each computes in one thread, its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from benchmarks.measure import Row, one_thread
from torch import nn

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm

REPETITIONS = 3
CASES: list[tuple[str, Callable[[], nn.Module], int]] = [
    ("VGG-16, CIFAR-10", zoo.small_vgg, 32),
    ("ResNet-18, 64 x 64", zoo.resnet18, 64),
]


def party(
    session: tacit.Session, models: list[nn.Module], side: int
) -> tuple[list[list[float]], int]:
    """Seconds of this party without and with kept weights, and the bytes that it keeps."""
    model = session.share(models[session.rank], owner=0)
    x = session.share(torch.rand(1, 3, side, side), owner=1)
    cache = session.protocol.context.products.cache
    budget, seconds = cache.budget, []
    with torch.no_grad():
        for _ in range(REPETITIONS + 2):  # of which the first two note and prepare the weights
            seconds.append([])
            for cache.budget in (0, budget):
                begin = time.thread_time()
                session.numbers.settled(model(x).value)
                seconds[-1].append(time.thread_time() - begin)
    return seconds[2:], cache.num_bytes


def row(name: str, make: Callable[[], nn.Module], side: int, protocol: str) -> Row:
    torch.manual_seed(3)
    models = [fold_batch_norm(make().eval()).eval() for _ in range(3)]
    with one_thread():
        measured = tacit.run(party, models, side, protocol=protocol)
    turns = zip(*(seconds for seconds, _ in measured), strict=True)
    fresh, kept = zip(
        *([sum(way) for way in zip(*turn, strict=True)] for turn in turns), strict=True
    )
    most = max(num_bytes for _, num_bytes in measured)
    return Row(
        name=f"{name}, {protocol}, seconds of all parties",
        value=median(kept),
        unit="s",
        baseline="nothing kept",
        baseline_value=median(fresh),
        target=0.6,
        lower_is_better=True,
        note=f"{most / 1e6:.0f} MB kept by the party that keeps most",
    )


def rows() -> list[Row]:
    return [row(*case, protocol) for case in CASES for protocol in ("trio", "replicated")]
