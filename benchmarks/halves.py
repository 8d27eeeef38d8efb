"""What a dealer sends, to one evaluator or one half to each of both, side by side.

Three processes with TLS on this machine, trio, 64 bits: steps that are recorded twice, once with
each way, and replayed in turns, over the loopback and over links with a bandwidth for each pair of
parties and direction. Time is of the slowest party, the median of five.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import torch
from benchmarks.measure import Row
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.protocols.masked import deal

WAYS = {"whole": 1 << 62, "halves": deal.HALVED_BITS}  # bits from which on it is two messages
WARM_UP, REPETITIONS = 4, 5  # the third call is recorded
LATENCY = 0.1e-3
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LeNet, batch 128": (zoo.lenet, (128, 1, 28, 28)),
    "GELU of 500,000": (nn.GELU, (500_000,)),
}
# The bandwidth in bits a second, and what the time in halves may be of the time as a whole.
LINKS: dict[str, tuple[float | None, float]] = {
    "loopback": (None, 1.05),
    "1 Gbit/s": (1e9, 0.75),
}


class Measured(NamedTuple):
    """The seconds of one party by way, what it received ahead, and whether results are equal."""

    seconds: dict[str, float]
    ahead: dict[str, int]
    error: float


def party(
    session: tacit.Session, make: Callable[[], nn.Module], shape: tuple[int, ...]
) -> Measured:
    torch.manual_seed(1)
    model, x = session.share(make().eval(), owner=0), session.share(torch.rand(shape), owner=1)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    ahead, found = {}, {}
    steps = {way: session.repeated(lambda x: model(x).detach()) for way in WAYS}
    for repetition in range(WARM_UP + REPETITIONS):
        for way, bits in WAYS.items():
            deal.HALVED_BITS = bits
            deal.portions.cache_clear()
            session.mesh.compare()
            begin = time.perf_counter()
            with session.stats.scope("step") as cost:
                found[way] = steps[way](x)
                session.numbers.settled(found[way].value)
            if repetition >= WARM_UP:
                seconds[way].append(time.perf_counter() - begin)
            ahead[way] = cost.bytes_received_ahead
    revealed: list[Tensor] = [session.reveal(found[way]) for way in WAYS]
    error = float((revealed[0] - revealed[1]).abs().max())
    return Measured({way: median(times) for way, times in seconds.items()}, ahead, error)


def row(case: str, link: str, found: list[Measured], target: float) -> Row:
    if max(one.error for one in found) > 1e-2:
        raise RuntimeError("both ways do not give the same results")
    slowest = {way: max(one.seconds[way] for one in found) for way in WAYS}
    most = {way: max(one.ahead[way] for one in found) / 1e6 for way in WAYS}
    return Row(
        name=f"{case}, dealt in halves, {link}",
        value=slowest["halves"],
        unit="s",
        baseline="to one evaluator",
        baseline_value=slowest["whole"],
        target=target,
        lower_is_better=True,
        note=f"an evaluator receives {most['halves']:.1f} MB from the dealer at most, "
        f"else {most['whole']:.1f} MB",
    )


def rows() -> list[Row]:
    made = []
    for link, (bandwidth, target) in LINKS.items():
        network = None if bandwidth is None else {"latency": LATENCY, "bandwidth": bandwidth}
        for case in CASES:
            found = tacit.run(party, *CASES[case], transport="processes", network=network)
            made.append(row(case, link, found, target))
    return made
