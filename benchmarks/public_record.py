"""Private inference with the record of what is public, beside the same without it.

Three parties in this process, trio, one picture; the two take turns in one session. Figures are
seconds of processor time of all parties together, the least of many turns. The record cannot be
switched off: this file replaces the function that writes it, at all parties alike. One row has a
model that was never shared: its weights are public operands, hashed at every call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from benchmarks.measure import Row, interleaved, one_thread, rate
from torch import nn

import tacit
from tacit import zoo
from tacit.kernels import digest
from tacit.nn import fold_batch_norm

MEGABYTE = 1 << 20
CASES: list[tuple[str, Callable[[], nn.Module], tuple[int, ...], int, bool]] = [
    ("LeNet", zoo.lenet, (1, 1, 28, 28), 300, True),
    ("ResNet-18, 64 x 64", zoo.resnet18, (1, 3, 64, 64), 30, True),
    ("ResNet-18, 64 x 64, weights public", zoo.resnet18, (1, 3, 64, 64), 8, False),
]


def party(
    session: tacit.Session, models: list[nn.Module], shape: tuple[int, ...], turns: int, share: bool
) -> list[list[float]]:
    """Seconds of this party without and with the record, for each turn."""
    model = session.share(models[session.rank], owner=0) if share else models[session.rank]
    x = session.share(torch.rand(shape, generator=torch.Generator().manual_seed(1)), owner=1)
    record, seconds = session.protocol.context.record, []
    absorb: Callable[..., None] = record.absorb
    with torch.no_grad():
        for turn in range(turns + 2):  # of which the first two prepare the weights
            seconds.append([0.0, 0.0])
            for way in (0, 1) if turn % 2 else (1, 0):
                record.absorb = (_nothing, absorb)[way]  # type: ignore[method-assign]
                session.mesh.compare()
                begin = time.thread_time()
                session.numbers.settled(model(x).value)
                seconds[-1][way] = time.thread_time() - begin
    return seconds[2:]


def _nothing(*_: Any) -> None:
    """Takes the place of the record."""


def row(
    name: str, make: Callable[[], nn.Module], shape: tuple[int, ...], turns: int, share: bool
) -> Row:
    models = []
    for _ in range(3):
        torch.manual_seed(3)
        models.append(fold_batch_norm(make().eval()).eval())
    with one_thread():
        measured = tacit.run(party, models, shape, turns, share)
    totals = [[sum(way) for way in zip(*turn, strict=True)] for turn in zip(*measured, strict=True)]
    without, with_it = (min(turn[way] for turn in totals) for way in (0, 1))
    return Row(
        name=f"{name}, seconds of all parties",
        value=with_it,
        unit="s",
        baseline="no record",
        baseline_value=without,
        target=1.02,
        lower_is_better=True,
        note=f"least of {turns} turns; {(with_it - without) * 1e6 / 3:.0f} us a party more",
    )


def hashing() -> Row:
    memory = torch.randint(0, 256, (64 * MEGABYTE,), dtype=torch.uint8)
    target = torch.empty_like(memory)
    calls = {"digest": lambda: digest(memory), "memcpy": lambda: target.copy_(memory)}
    with one_thread():
        seconds = interleaved(calls)
    pair = ("digest", "memcpy")
    return rate("digest of 64 MiB", memory.nbytes, "GB/s", seconds, pair, target=0.5)


def rows() -> list[Row]:
    return [*(row(*case) for case in CASES), hashing()]
