"""How many sums Goten's modulus q = 2^21 - 9 changes in training, with 8-bit integers.

Sums of products beyond q / 2 wrap, and nobody notices. 63 products of 8-bit integers cannot reach
that. VGG-11 adds up 4,608 in a forward pass, and 131,072 in a gradient for a batch of 128, so it
depends on the data. Here an enclave trains VGG-11 on CIFAR-10 in the paper's size. The sums are
exact, and then reduced. Batches are of 128, the paper's of 512;
the other settings are the paper's.
"""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.goten import step
from benchmarks.measure import Row
from benchmarks.real import vgg11
from torch.optim import SGD

import tacit
from tacit.enclave.trusted.counters import Effort

PLAN = vgg11.Plan(pictures=512, batch=128)
SETTINGS: dict[str, Any] = {"protocol": "enclave", "parties": 2, "outsourcing": "none"}


def products() -> dict[str, Effort]:
    """What an epoch has counted, by operation and shapes."""
    found: dict[str, Effort] = {}

    def main(session: tacit.Session) -> None:
        owns = session.rank == 1
        given = vgg11.pictures(PLAN) if owns else [torch.empty(shape) for shape in PLAN.shapes]
        x, y = session.share(list(given), owner=1)
        model = session.share(PLAN.network(), owner=0)
        optimizer = SGD(
            model.parameters(), PLAN.rate, momentum=vgg11.MOMENTUM, weight_decay=vgg11.DECAY
        )
        for rows in PLAN.batches(0):
            step(model, optimizer, x[rows], y[rows])
        if session.is_enclave:
            outsourcer = session.protocol.multiply.__self__  # type: ignore[attr-defined]
            found.update(outsourcer.counters.products)

    tacit.run(main, precision="goten", deadline=600.0, **SETTINGS)
    return found


def rows() -> list[Row]:
    steps = len(PLAN.batches(0))
    note = f"VGG-11, CIFAR-10, the first {steps} steps, batch {PLAN.batch}, rate {PLAN.rate}"
    return [
        Row(
            name=f"sums that wrap, {name}",
            value=effort.wrapped,
            unit="sums",
            baseline="all sums",
            baseline_value=effort.sums,
            lower_is_better=True,
            note=note,
        )
        for name, effort in products().items()
    ]
