"""How long a run takes on another network, from what each party computes, sends and awaits."""

from __future__ import annotations

from collections.abc import Sequence

from ...transport.shaping import Link
from .meter import Spent


def forecast(records: Sequence[Sequence[Spent]], link: Link) -> float:
    """Returns the seconds until the last party ends, if every pair has this link.

    records: those of each member, by rank, in the order of the program. Each member computes on a
    machine of its own, so none waits for a processor. An operation begins at a
    party when the one before it ends. Each of its rounds takes the latency, and its bytes the
    bandwidth. Bytes that are sent ahead travel from the time at which their sender has reached the
    operation, after those that use the same link: a dealer that awaits nobody is early.
    """
    clocks = [0.0] * len(records)
    free: dict[tuple[int, int], float] = {}  # when a link has carried all that was sent before
    per_byte = 8 / link.bandwidth
    for steps in zip(*records, strict=False):
        ready = [clock + step.seconds for clock, step in zip(clocks, steps, strict=True)]
        ends = list(ready)
        for rank, step in enumerate(steps):
            if not (step.rounds or step.received or step.ahead):
                continue
            for peer, size in step.ahead.items():
                if size:
                    way = (peer, rank)
                    free[way] = max(free.get(way, 0.0), ready[peer]) + size * per_byte
                    ends[rank] = max(ends[rank], free[way] + link.latency)
            peers = [peer for peer, size in step.received.items() if size]
            start = max([ends[rank], *(ready[peer] for peer in peers)])
            size = max((step.received[peer] for peer in peers), default=0)
            ends[rank] = start + step.rounds * link.latency + size * per_byte
        clocks = ends
    return max(clocks, default=0.0)
