"""A thousand million exact divisions, and the error of the worst.

Integers over everything that a division allows, |x| < 2^62, by parties in this process, `trio`
unless others are asked for, 16 bits at a time; each quotient is opened and compared with
x, in integers.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from benchmarks.measure import Row
from torch import Tensor

import tacit

COUNT = 10**9
CHUNK = 1 << 22
SHIFT = 16
LARGEST = 1 << 62
DEADLINE = 300.0


def numbers(chunk: int, size: int) -> Tensor:
    """Random ones, and the largest and smallest."""
    generator = torch.Generator().manual_seed(chunk)
    x = torch.randint(1 - LARGEST, LARGEST, (size,), generator=generator)
    x[:4] = torch.tensor([LARGEST - 1, 1 - LARGEST, 0, -1])
    return x


def worst(x: Tensor, quotients: Tensor) -> int:
    """The largest |2^16 quotient - x|, at most 2^16 if every quotient is off by less than a unit.

    Quotients are below 2^46, and wrong ones are off by 2^47, so that nothing wraps unseen: what is
    beyond their range counts as the largest error there is.
    """
    if int(quotients.abs().max()) > LARGEST >> SHIFT:
        return 2 * LARGEST
    low, high = torch.aminmax((quotients << SHIFT) - x)
    return max(-int(low), int(high))


def party(session: tacit.Session, count: int) -> tuple[int, float]:
    """The worst of all, and the seconds that this party's divisions took."""
    largest, seconds, protocol = 0, 0.0, session.protocol
    for chunk, start in enumerate(range(0, count, CHUNK)):
        size = min(CHUNK, count - start)
        x = numbers(chunk, size) if session.rank == 1 else None
        secret = protocol.share(x, 1, (size,)).promise(LARGEST)
        begin = time.perf_counter()
        quotients = protocol.truncate(secret.divided(SHIFT))
        seconds += time.perf_counter() - begin
        opened = protocol.reveal(quotients, 1)
        if x is not None:
            largest = max(largest, worst(x, opened))
    return largest, seconds


def rows(count: int = COUNT, **parties: Any) -> list[Row]:
    results = tacit.run(party, count, deadline=DEADLINE, **parties)
    largest, seconds = max(results[1][0], 0), max(seconds for _, seconds in results)
    return [
        Row(
            name=f"{count:,} exact divisions: largest error",
            value=largest / (1 << SHIFT),
            unit="units",
            baseline="allowed",
            baseline_value=1,
            target=1,
            lower_is_better=True,
            note=f"random integers below 2^62 in magnitude, by 2^{SHIFT}; "
            f"{count / seconds / 1e6:.1f} million a second",
        )
    ]
