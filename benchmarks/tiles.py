"""A large convolution that is sent while it is computed, beside one that is sent when complete.

Three processes with TLS on this machine, trio, 64 bits: the second layer of VGG-16 (3x3, 64 to 64
channels, 32x32) for a batch of pictures, over the loopback and over links with a bandwidth. The
ways take turns. Where the parties have few cores in common, one that waits leaves them to others,
so the time of a fast link hardly changes; the note tells how long the evaluators waited.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median

import torch
from benchmarks.measure import Row
from torch import nn

import tacit
from tacit.transport import tiles

CHANNELS, SIZE, BATCH = 64, 32, 32
REPETITIONS = 5
WAYS = {"whole": 1 << 62, "tiles": tiles.TILE_BYTES}  # bytes of a tile
LATENCY = 0.1e-3
# The bandwidth in bits a second, and what the time in tiles may be of the time as a whole.
LINKS: dict[str, tuple[float | None, float]] = {
    "loopback": (None, 1.05),
    "1 Gbit/s": (1e9, 1.0),
    "200 Mbit/s": (200e6, 0.8),
}


@dataclass
class Measured:
    """The seconds of one party by way, and those in which it waited; what it sent in one layer."""

    seconds: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)


def party(session: tacit.Session, batch: int, repetitions: int) -> Measured:
    torch.manual_seed(1)
    layer = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
    model = session.share(layer, owner=0)
    x = session.share(torch.rand(batch, CHANNELS, SIZE, SIZE), owner=1)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    waiting: dict[str, list[float]] = {way: [] for way in WAYS}
    found = Measured()
    with torch.no_grad():
        for repetition in range(-2, repetitions):  # the second use of a weight encodes it
            for way, size in WAYS.items():
                tiles.TILE_BYTES = size
                session.mesh.compare()
                begin = time.perf_counter()
                with session.stats.scope("layer") as cost:
                    model(x)
                session.mesh.compare()
                if repetition >= 0:
                    seconds[way].append(time.perf_counter() - begin)
                    waiting[way].append(cost.seconds_waiting)
                    found.sent[way] = cost.bytes_sent
    found.seconds = {way: median(times) for way, times in seconds.items()}
    found.waiting = {way: median(times) for way, times in waiting.items()}
    return found


def row(link: str, found: list[Measured], target: float) -> Row:
    slowest = {way: max(one.seconds[way] for one in found) for way in WAYS}
    waits = {way: max(one.waiting[way] for one in found) for way in WAYS}
    return Row(
        name=f"3x3 convolution, batch {BATCH}, in tiles, {link}",
        value=slowest["tiles"],
        unit="s",
        baseline="as a whole",
        baseline_value=slowest["whole"],
        target=target,
        lower_is_better=True,
        note=f"a party waits {waits['tiles']:.3f} s at most, else {waits['whole']:.3f} s; it sends "
        f"{max(one.sent['tiles'] for one in found) / 1e6:.1f} MB",
    )


def rows() -> list[Row]:
    made = []
    for link, (bandwidth, target) in LINKS.items():
        network = None if bandwidth is None else {"latency": LATENCY, "bandwidth": bandwidth}
        found = tacit.run(party, BATCH, REPETITIONS, transport="processes", network=network)
        made.append(row(link, found, target))
    return made
