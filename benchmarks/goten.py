"""Goten's experiment: VGG-11 learns CIFAR-10 in an enclave that rents untrusted workers.

Beside the same enclave alone (the role of CaffeScone), and `trio`. All members are threads of this
process; the workers compute on the GPU if there is one, the enclave on the processor with as many
threads as torch has here. The paper's settings: batches of 512, of 128 for the enclave alone, SGD
with momentum 0.9, weight decay 5e-4, a learning rate of 0.5 (here 0.1: few epochs), halved every 30
epochs. Goten's own figure, 196,733 images an hour, was measured on three servers with SGX and V100.

Without a GPU the workers share the processor with the enclave, and batches have 64 pictures. That
shows what the time is spent on, and no gain.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import torch
from benchmarks.goten_layers import Sections, Spent, layer_rows, measured_layers, parts_in_ms
from benchmarks.goten_layers import table as layers_table
from benchmarks.measure import Row
from torch import Tensor, nn
from torch.nn import functional as F

import tacit
from tacit import zoo
from tacit.protocols.plain_memory import MemoryCounters

HAS_GPU = torch.cuda.is_available()
BATCH, ALONE_BATCH = (512, 128) if HAS_GPU else (64, 64)
STEPS, WARM_UP = (5, 2) if HAS_GPU else (3, 1)
GOTEN = 196_733  # images an hour
RATIO = 6.84  # of Goten's rate to CaffeScone's
MEMORY_LIMIT = 90_000_000  # bytes, as in the paper
RATE, MOMENTUM, DECAY = 0.1, 0.9, 5e-4
PHASES = ("quantise", "mask", "send", "wait", "unmask", "check", "dequantise", "inside")


@dataclass
class Measured:
    """Seconds of a step, and those of its layers in all steps, at the member that computes."""

    seconds: float = 0.0
    layers: Spent = field(default_factory=dict)
    memory: MemoryCounters | None = None  # of an enclave whose memory is limited


def random_batch(batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(batch)
    pictures = torch.randn(batch, 3, 32, 32, generator=generator)
    return pictures, torch.randint(10, (batch,), generator=generator)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def measured(batch: int, **settings: Any) -> Measured:
    """The median seconds of a step of training, with what the enclave spent on its products."""
    found = Measured()

    def party(session: tacit.Session) -> float:
        torch.manual_seed(5)
        model = session.share(zoo.goten_vgg(), owner=0)
        optimizer, seconds = optimizer_of(model), []
        x, y = (session.share(part, owner=1) for part in random_batch(batch))
        sections = Sections(partial(phases, session))
        for repetition in range(WARM_UP + STEPS):
            session.mesh.compare()
            is_timed = session.is_enclave and repetition >= WARM_UP
            begin = time.perf_counter()
            with measured_layers(model, optimizer, sections) if is_timed else nullcontext():
                loss = step(model, optimizer, x, y)
            session.reveal(loss, to=0)
            seconds.append(time.perf_counter() - begin)
        if session.is_enclave:
            found.layers, found.memory = sections.spent, session.sealed_memory
        return median(seconds[WARM_UP:])

    found.seconds = max(tacit.run(party, deadline=300.0, **settings))
    return found


def phases(session: tacit.Session) -> dict[str, float]:
    """The seconds of each phase of outsourced products so far."""
    outsourcer = session.protocol.multiply.__self__  # type: ignore[attr-defined]
    return {phase: outsourcer.counters.total.seconds.get(phase, 0.0) for phase in PHASES}


def rate_rows(device: str) -> list[Row]:
    """Images an hour with workers, beside the enclave alone and Goten's figure."""
    enclave: dict[str, Any] = {"protocol": "enclave", "parties": 2}
    workers = {"outsourcing": "three-server", "precision": "swalp", "device": device}
    alone = measured(ALONE_BATCH, outsourcing="none", **enclave)
    helped = measured(BATCH, **workers, **enclave)
    rates = ALONE_BATCH / alone.seconds * 3600, BATCH / helped.seconds * 3600
    print(layers_table(helped.layers, STEPS), flush=True)
    parts = ", ".join(parts_in_ms(sum(helped.layers.values(), Counter()), STEPS))
    note = f"a step {helped.seconds:.2f} s, in ms: {parts}; {torch.get_num_threads()} threads"
    return [
        Row(
            name=f"VGG-11, batch {BATCH}, three workers on {device}, swalp",
            value=rates[1],
            unit="images/h",
            baseline=f"the enclave alone, batch {ALONE_BATCH}",
            baseline_value=rates[0],
            target=RATIO if HAS_GPU else None,
            note=note,
        ),
        Row(
            name=f"VGG-11, batch {BATCH}, three workers on {device}, swalp",
            value=rates[1],
            unit="images/h",
            baseline="Goten, recorded",
            baseline_value=GOTEN,
            target=1.0 if HAS_GPU else None,
        ),
        *([trio_row(rates[1])] if device == "cuda" else []),
        *limited_rows(device, rates, workers, enclave),  # last: they change the allocator
        *layer_rows("a step by layer", helped.layers, STEPS),
    ]


def limited_rows(
    device: str, rates: tuple[float, float], workers: dict[str, Any], enclave: dict[str, Any]
) -> list[Row]:
    """The same with the memory that the paper's enclaves had, beside the rates without a limit."""
    with_workers = f"batch {BATCH}, three workers on {device}, swalp"
    made = []
    for name, batch, rate, settings in (
        (f"the enclave alone, batch {ALONE_BATCH}", ALONE_BATCH, rates[0], {"outsourcing": "none"}),
        (with_workers, BATCH, rates[1], workers),
    ):
        found = measured(batch, memory_limit=MEMORY_LIMIT, **settings, **enclave)
        memory, steps = found.memory, WARM_UP + STEPS
        assert memory is not None
        sealed, opened = (n / steps / 1e6 for n in (memory.bytes_sealed, memory.bytes_opened))
        note = (
            f"a step {found.seconds:.2f} s: {sealed:.0f} MB sealed in "
            f"{memory.seconds_sealing / steps:.2f} s, {opened:.0f} MB opened in "
            f"{memory.seconds_opening / steps:.2f} s, operations waited "
            f"{memory.seconds_waiting / steps:.2f} s; peak {memory.peak / 1e6:.1f} MB"
        )
        made.append(
            Row(
                name=f"VGG-11, {name}, memory_limit 90 MB",
                value=batch / found.seconds * 3600,
                unit="images/h",
                baseline="without a limit",
                baseline_value=rate,
                note=note,
            )
        )
    return made


def trio_row(rate: float) -> Row:
    """The same training without an enclave, by three parties on the GPU."""
    seconds = measured(ALONE_BATCH, protocol="trio", device="cuda").seconds
    return Row(
        name=f"VGG-11, batch {BATCH}, three workers on cuda, swalp",
        value=rate,
        unit="images/h",
        baseline=f"trio, batch {ALONE_BATCH}",
        baseline_value=ALONE_BATCH / seconds * 3600,
    )


def rows() -> list[Row]:
    return rate_rows("cuda" if HAS_GPU else "cpu")
