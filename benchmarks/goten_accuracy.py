"""What 8 bits, 22 bits and averaged weights do to accuracy: an enclave beside plain float32.

The same first weights, batches and schedule. VGG-11 learns CIFAR-10, narrower and on fewer pictures
than in Goten's paper; a dense network learns to tell tumours (scikit-learn's breast cancer set), in
the place of the paper's medical pictures. To save time, VGG-11 with 8 bits multiplies the rounded
integers inside the enclave, in float32, which rounds sums beyond 2^24; workers do the rest, and are
exact. Accuracies of VGG-11 so small differ by several points between seeds: a difference of one
point needs more seeds or more pictures than SEEDS and PLAN have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any, NamedTuple

from benchmarks import tumours
from benchmarks.measure import Row
from benchmarks.real import vgg11
from torch import nn

import tacit

SEEDS = range(2)
SPLITS = range(5)
POINTS = 1.0  # by which accuracies may differ
PLAN = vgg11.Plan(
    width=8,
    pictures=4000,
    batch=64,
    epochs=6,
    rate=0.1,
    averaged_epochs=2,
    averaged_rate=0.02,
    average_every=4,
)
SHORT = replace(PLAN, pictures=640, epochs=2, averaged_epochs=1)
ENCLAVE: dict[str, Any] = {"protocol": "enclave", "parties": 2, "deadline": 600.0}
Learn = Callable[..., tuple[list[float], nn.Module, nn.Module]]


class Found(NamedTuple):
    """Percentages that are right, with the last weights and with averaged ones; the last loss."""

    last: float
    averaged: float
    loss: float


def progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def vgg(plan: vgg11.Plan, **settings: Any) -> Found:
    """Returns what VGG-11 learns: in plain, or with these settings of a session."""
    run: Any = tacit.run(vgg11.learn, plan, **settings)[0] if settings else None
    losses, model, averaged = run or vgg11.learn_in_plain(plan)
    found = Found(vgg11.accuracy(model), vgg11.accuracy(averaged), losses[-1])
    progress(f"seed {plan.seed}, {settings.get('precision', 'float32')}: {found}")
    return found


def compared(name: str, ours: Sequence[Found], plain: Sequence[Found], note: str) -> list[Row]:
    """Rows of mean accuracies; those with averaged weights are to be within POINTS."""
    rows = []
    for field, target in (("last", None), ("averaged", POINTS)):
        value, base = (mean(getattr(one, field) for one in found) for found in (ours, plain))
        each = ", ".join(
            f"{getattr(one, field):.1f} ({getattr(other, field):.1f})"
            for one, other in zip(ours, plain, strict=True)
        )
        rows.append(
            Row(
                name=f"{name}, {field} weights",
                value=value,
                unit="% right",
                baseline="float32",
                baseline_value=base,
                target=target and (base - target) / base,
                note=f"{note}; each, in brackets float32: {each}",
            )
        )
    return rows


def cifar_rows() -> list[Row]:
    """VGG-11 with 8 bits, for some seeds."""
    plans = [replace(PLAN, seed=seed) for seed in SEEDS]
    plain = [vgg(plan) for plan in plans]
    inside = {**ENCLAVE, "outsourcing": "none"}
    small = [vgg(plan, precision="swalp", **inside) for plan in plans]
    note = (
        f"width {PLAN.width} of 64, {PLAN.pictures} of 50,000 pictures, batch {PLAN.batch}, "
        f"{PLAN.epochs} epochs, rate {PLAN.rate}, mean of {len(plans)} seeds, 10,000 for the test"
    )
    return compared("VGG-11 learns CIFAR-10, 8 bits", small, plain, note)


def short_rows() -> list[Row]:
    """The losses of VGG-11 after a few steps, with workers."""
    plain = vgg(SHORT)
    found = {bits: vgg(SHORT, precision=bits, **ENCLAVE) for bits in ("fixed", "swalp")}
    steps = SHORT.epochs * len(SHORT.batches(0))
    return [
        Row(
            name=f"VGG-11 after {steps} steps, three workers, {bits}",
            value=one.loss,
            unit="loss",
            baseline="float32",
            baseline_value=plain.loss,
            lower_is_better=True,
            note=f"width {SHORT.width}, batch {SHORT.batch}, one seed",
        )
        for bits, one in found.items()
    ]


def tumour_rows() -> list[Row]:
    """A dense network on medical data, with workers, for several splits of the set."""
    plain = [Found(*tumours.learn_in_plain(split)) for split in SPLITS]
    rows = []
    for bits, title in (("fixed", "22 bits"), ("swalp", "8 bits")):
        ours = [
            Found(*tacit.run(tumours.learn, split, precision=bits, **ENCLAVE)[0])
            for split in SPLITS
        ]
        progress(f"tumours, {bits}: {ours}")
        note = f"three workers, mean of {len(SPLITS)} splits with {tumours.TEST} for the test"
        rows += compared(f"dense network learns tumours, {title}", ours, plain, note)
    return rows


def rows() -> list[Row]:
    return [*tumour_rows(), *short_rows(), *cifar_rows()]
