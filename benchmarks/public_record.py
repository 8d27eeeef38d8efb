"""Private inference with the record of what is public, beside the same without it.

Trio, one picture; the two take turns in one session, at all parties alike. Three parties in this
process: seconds of processor time of all together. Three processes with TLS, as users have them:
also the seconds until the last party is done. What the record costs is the median of the
differences within a turn: other load hits both ways alike. It cannot be switched off: this file
replaces the function that writes it. One row has a model that was never shared: its weights are
public operands, hashed at every call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

import torch
from benchmarks.measure import Row, interleaved, one_thread, rate
from torch import nn

import tacit
from tacit import zoo
from tacit.kernels import digest
from tacit.nn import fold_batch_norm

MEGABYTE = 1 << 20
WARM_UP = 2  # turns, which prepare the weights
CASES: list[tuple[str, Callable[[], nn.Module], tuple[int, ...], int, bool]] = [
    ("LeNet", zoo.lenet, (1, 1, 28, 28), 400, True),
    ("ResNet-18, 64 x 64", zoo.resnet18, (1, 3, 64, 64), 40, True),
    ("ResNet-18, 64 x 64, weights public", zoo.resnet18, (1, 3, 64, 64), 8, False),
]
PROCESS_TURNS = 400
Clock = Callable[[], float]
Turns = list[list[float]]  # seconds without and with the record, for each turn


def party(
    session: tacit.Session,
    models: list[nn.Module],
    shape: tuple[int, ...],
    turns: int,
    share: bool,
    clocks: tuple[Clock, ...],
) -> list[Turns]:
    """What each clock of this party shows."""
    model = session.share(models[session.rank], owner=0) if share else models[session.rank]
    x = session.share(torch.rand(shape, generator=torch.Generator().manual_seed(1)), owner=1)
    record = session.protocol.context.record
    shown: list[Turns] = [[] for _ in clocks]
    absorb: Callable[..., None] = record.absorb
    with torch.no_grad():
        for turn in range(turns + WARM_UP):
            for seconds in shown:
                seconds.append([0.0, 0.0])
            for way in (0, 1) if turn % 2 else (1, 0):
                record.absorb = (_nothing, absorb)[way]  # type: ignore[method-assign]
                session.mesh.compare()
                begin = [clock() for clock in clocks]
                session.numbers.settled(model(x).value)
                for seconds, clock, since in zip(shown, clocks, begin, strict=True):
                    seconds[-1][way] = clock() - since
    return [seconds[WARM_UP:] for seconds in shown]


def process(*arguments: Any) -> list[Turns]:
    """A party that has a process of its own."""
    with one_thread():
        return party(*arguments)


def _nothing(*_: Any) -> None:
    """Takes the place of the record."""


def models(make: Callable[[], nn.Module]) -> list[nn.Module]:
    """The same model for each party."""
    made = []
    for _ in range(3):
        torch.manual_seed(3)
        made.append(fold_batch_norm(make().eval()).eval())
    return made


def row(name: str, parties: Sequence[Turns], joined: Callable[[Iterable[float]], float]) -> Row:
    """The figure of a turn is that of its parties, `joined`: their sum, or the largest."""
    turns = [
        [joined(way) for way in zip(*turn, strict=True)] for turn in zip(*parties, strict=True)
    ]
    without = median(turn[0] for turn in turns)
    more = sorted(turn[1] - turn[0] for turn in turns)
    low, high = (more[int(place)] for place in _interval(len(more)))
    return Row(
        name=name,
        value=(without + median(more)) * 1e3,
        unit="ms",
        baseline="no record",
        baseline_value=without * 1e3,
        target=1.02,
        lower_is_better=True,
        note=f"median of {len(turns)} differences {median(more) * 1e6:.0f} us, with 95 % certainty "
        f"from {low * 1e6:.0f} to {high * 1e6:.0f}",
    )


def _interval(count: int) -> tuple[float, float]:
    """The places, in order of size, between which the true median lies with 95 % certainty."""
    reach = 0.98 * count**0.5
    return max(count / 2 - reach, 0), min(count / 2 + reach, count - 1)


def in_threads(
    name: str, make: Callable[[], nn.Module], shape: tuple[int, ...], turns: int, share: bool
) -> Row:
    with one_thread():
        shown = tacit.run(party, models(make), shape, turns, share, (time.thread_time,))
    return row(f"{name}, processor time of all", [used for [used] in shown], sum)


def in_processes() -> list[Row]:
    clocks = (time.perf_counter, time.process_time)
    setting = (models(zoo.lenet), (1, 1, 28, 28), PROCESS_TURNS, True, clocks)
    waited, used = zip(*tacit.run(process, *setting, transport="processes"), strict=True)
    name = "LeNet, processes with TLS"
    return [row(f"{name}, time", waited, max), row(f"{name}, processor time of all", used, sum)]


def hashing() -> Row:
    memory = torch.randint(0, 256, (64 * MEGABYTE,), dtype=torch.uint8)
    target = torch.empty_like(memory)
    calls = {"digest": lambda: digest(memory), "memcpy": lambda: target.copy_(memory)}
    with one_thread():
        seconds = interleaved(calls)
    pair = ("digest", "memcpy")
    return rate("digest of 64 MiB", memory.nbytes, "GB/s", seconds, pair, target=0.5)


def rows() -> list[Row]:
    return [*(in_threads(*case) for case in CASES), *in_processes(), hashing()]
