"""How many sums Goten's modulus q = 2^21 - 9 changes in training, with 8-bit integers.

Sums of products beyond q / 2 wrap, and nobody notices. 63 products of 8-bit integers cannot reach
that; VGG-11 adds up to 131,072 for a batch of 128. So it depends on the data. Here the enclave
trains VGG-11 on CIFAR-10 in the paper's size, with exact sums that are then reduced.
"""

from __future__ import annotations

from benchmarks.measure import Row
from benchmarks.real import vgg11

import tacit
from tacit.enclave.trusted.counters import Effort

PLAN = vgg11.Plan(pictures=512, batch=128, epochs=1, averaged_epochs=0)


def products() -> dict[str, Effort]:
    """What a few steps have counted, by operation and shapes."""
    found: dict[str, Effort] = {}

    def main(session: tacit.Session) -> None:
        vgg11.learn(session, PLAN)
        if session.is_enclave:
            outsourcer = session.protocol.multiply.__self__  # type: ignore[attr-defined]
            found.update(outsourcer.counters.products)

    settings = {"protocol": "enclave", "parties": 2, "outsourcing": "none", "deadline": 600.0}
    tacit.run(main, precision="goten", **settings)
    return found


def rows() -> list[Row]:
    steps = len(PLAN.batches(0))
    note = f"VGG-11, CIFAR-10, the first {steps} steps with batches of {PLAN.batch}"
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
