"""Pictures a second by the size of the batch, with one call and with several in flight.

Three processes with TLS on this machine, trio, 64 bits, random weights. A batch goes through the
network as a whole, or by `session.map` in as many pieces as calls are in flight; the ways take
turns. Then the same over links of 1 Gbit/s: how busy they are. Where all parties share few cores,
these bound it: the note tells what the links alone would take. Encoded weights are kept for all
roles (TACIT_KEEP_MIB), so that each way finds them ready.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from unittest.mock import patch

import torch
from benchmarks.measure import Row
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "VGG-16": zoo.small_vgg,
    "AlexNet": zoo.small_alexnet,
}
BATCHES = (8, 64, 192)
IN_FLIGHT = 3
REPETITIONS = 3
KEEP_MIB = "4096"
GROWTH = 1.8  # pictures a second of the largest batch over those of the smallest
LINK = {"latency": 0.1e-3, "bandwidth": 1e9}
LINK_BATCH = 64
LINK_USE = 0.7
WAYS = ("loop", "map")


@dataclass
class Measured:
    """What one party measured, by (way, batch): seconds, and the bytes that it sent to each peer.

    waiting: the part of the seconds in which it waited. megabytes: the most memory it has used.
    """

    seconds: dict[tuple[str, int], float] = field(default_factory=dict)
    waiting: dict[tuple[str, int], float] = field(default_factory=dict)
    sent: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    megabytes: dict[str, float] = field(default_factory=dict)
    error: float = 0.0


def run_batch(session: tacit.Session, model: nn.Module, x: Tensor, way: str) -> Tensor:
    """Returns the scores of a batch, settled."""
    size = len(x) if way == "loop" else -(-len(x) // IN_FLIGHT)
    count = 1 if way == "loop" else IN_FLIGHT
    scores = torch.cat(list(session.map(model, x.split(size), in_flight=count)))
    session.numbers.settled(scores.value)  # type: ignore[attr-defined]
    return scores


def party(
    session: tacit.Session, name: str, batches: tuple[int, ...], repetitions: int
) -> Measured:
    torch.manual_seed(1)
    plain = fold_batch_norm(NETWORKS[name]().eval()).eval()
    pictures = torch.rand(max(batches), 3, 32, 32)
    expected = plain(pictures[:1]).detach()
    model, x = session.share(plain, owner=0), session.share(pictures, owner=1)
    found = Measured()
    with torch.no_grad():
        for way in WAYS:
            for _ in range(2):  # the second use of a weight encodes it, in each assignment of roles
                run_batch(session, model, x[: 2 * IN_FLIGHT], way)
        for way in WAYS:  # the one with less memory first
            for batch in batches:
                measure(session, model, x[:batch], (way, batch), found, repetitions)
            found.megabytes[way] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        scores = session.reveal(run_batch(session, model, x[:3], "map"))[:1]
    found.error = float((scores - expected).abs().max() / expected.abs().max())
    return found


def measure(
    session: tacit.Session,
    model: nn.Module,
    x: Tensor,
    case: tuple[str, int],
    found: Measured,
    repetitions: int,
) -> None:
    """Adds the median seconds of one case; parties begin and end each repetition together."""
    seconds, costs = [], []
    for _ in range(repetitions):
        session.mesh.compare()
        begin = time.perf_counter()
        with session.stats.scope("measured") as cost:
            run_batch(session, model, x, case[0])
        session.mesh.compare()
        seconds.append(time.perf_counter() - begin)
        costs.append(cost)
    found.seconds[case] = median(seconds)
    found.waiting[case] = median(cost.seconds_waiting for cost in costs)
    found.sent[case] = {peer: cost.bytes_sent for peer, cost in costs[-1].peers.items()}


def run(
    name: str, batches: tuple[int, ...], repetitions: int = REPETITIONS, **settings: object
) -> list[Measured]:
    with patch.dict(os.environ, {"TACIT_KEEP_MIB": KEEP_MIB}):
        found = tacit.run(
            party,
            name,
            batches,
            repetitions,
            transport="processes",
            **settings,  # type: ignore[arg-type]
        )
    if (error := max(one.error for one in found)) > 1e-2:
        raise SystemExit(f"{name}: an output is off by {error:.3f} of the largest")
    return found


def growth_rows(
    name: str, batches: tuple[int, ...] = BATCHES, repetitions: int = REPETITIONS
) -> list[Row]:
    """Pictures a second of each batch beside those of the smallest one."""
    found, rows = run(name, batches, repetitions), []
    for way in WAYS:
        rates = {b: b / max(one.seconds[way, b] for one in found) for b in batches}
        first, last = batches[0], batches[-1]
        for before, batch in pairwise(batches):
            waits = (one.waiting[way, batch] / one.seconds[way, batch] for one in found)
            memory = max(one.megabytes[way] for one in found) / 1e3
            rows.append(
                Row(
                    name=f"{name}, batch {batch}, {way}",
                    value=rates[batch],
                    unit="pictures/s",
                    baseline=f"batch {first}",
                    baseline_value=rates[first],
                    target=GROWTH if batch == last else 1.0,
                    note=f"{rates[batch] / rates[before]:.2f} times batch {before}; waiting "
                    + ", ".join(f"{share:.0%}" for share in waits)
                    + f" of the time; at most {memory:.1f} GB a party",
                )
            )
    return rows


def link_rows(batch: int = LINK_BATCH, repetitions: int = REPETITIONS) -> list[Row]:
    """How busy the busiest of the links is, in both directions of each pair."""
    found, rows = run("VGG-16", (batch,), repetitions, network=LINK), []
    for way in WAYS:
        seconds = max(one.seconds[way, batch] for one in found)
        alone = max(size * 8 / 1e9 for one in found for size in one.sent[way, batch].values())
        party = max(sum(one.sent[way, batch].values()) * 8 / 1e9 for one in found)
        rows.append(
            Row(
                name=f"VGG-16, batch {batch}, {way}, 1 Gbit/s",
                value=100 * alone / seconds,
                unit="% of a link",
                baseline="all of it",
                baseline_value=100.0,
                target=LINK_USE,
                note=f"{batch / seconds:.3g} pictures/s in {seconds:.1f} s; the busiest link alone "
                f"takes {alone:.1f} s, and {party:.1f} s if a party had one for both peers; "
                f"{len(os.sched_getaffinity(0))} cores for all parties",
            )
        )
    return rows


def rows() -> list[Row]:
    return [*(row for name in NETWORKS for row in growth_rows(name)), *link_rows()]
