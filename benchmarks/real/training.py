"""LeNet-5 learns Fashion-MNIST on secrets, beside the same training in plain floats.

The same initial weights, the same batches in the same order, torch.optim.SGD with momentum; all
parties in this process, three and `trio` unless others are asked for, default settings. The network
is party 0's, the pictures party 1's.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.measure import Row
from torch import Tensor, nn
from torch.nn import functional as F

import tacit
from tacit import zoo

from . import vision

STEPS = 300
BATCH = 64
RATE = 0.02
MEAN, DEVIATION = 0.286, 0.353  # of the pixels of the training set
POINTS = 1.0  # by which the accuracies may differ
DEADLINE = 300.0
Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Outcome:
    """A network, its losses by step, and how long it took."""

    model: nn.Module
    losses: Tensor
    seconds: float


def start() -> nn.Module:
    torch.manual_seed(0)
    return zoo.lenet5(pool="max")


def pictures(*, train: bool) -> tuple[Tensor, Tensor]:
    """Pictures with mean 0 and variance 1, and their classes."""
    images, labels = vision.fashion_mnist(train=train)
    return (images - MEAN) / DEVIATION, labels


def batches(steps: int) -> list[Batch]:
    """Pictures in a fixed random order, with a column for each class."""
    images, labels = pictures(train=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    chosen = order[: steps * BATCH].split(BATCH)
    return [(images[i], F.one_hot(labels[i], 10).float()) for i in chosen]


def train(model: nn.Module, data: Iterable[Batch]) -> list[Tensor]:
    """Trains in place; the losses, secret if the data are."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for images, classes in data:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def plain(data: list[Batch]) -> Outcome:
    begin, model = time.perf_counter(), start()
    losses = torch.stack(train(model, data))
    return Outcome(model, losses, time.perf_counter() - begin)


def party(session: tacit.Session, model: nn.Module, data: list[Batch]) -> Outcome:
    model = session.share(copy.deepcopy(model), owner=0)

    def secret() -> Iterator[Batch]:
        for batch in data:
            images, classes = session.share(list(batch), owner=1)
            yield images, classes

    begin = time.perf_counter()
    losses = torch.stack(train(model, secret()))
    revealed = session.reveal(losses)
    return Outcome(session.reveal(model), revealed, time.perf_counter() - begin)


def private(data: list[Batch], **parties: Any) -> Outcome:
    return tacit.run(party, start(), data, deadline=DEADLINE, **parties)[0]


def accuracy(model: nn.Module) -> float:
    """Of 100 test pictures, how many are right."""
    images, labels = pictures(train=False)
    with torch.no_grad():
        classes = torch.cat([model(part).argmax(1) for part in images.split(500)])
    return 100 * float((classes == labels).float().mean())


def rows(**parties: Any) -> list[Row]:
    data = batches(STEPS)
    ours, base = private(data, **parties), plain(data)
    right, wanted = accuracy(ours.model), accuracy(base.model)
    off = float((ours.losses - base.losses).abs().max())
    return [
        Row(
            name="LeNet-5 learns Fashion-MNIST: test accuracy",
            value=right,
            unit="%",
            baseline="plain",
            baseline_value=wanted,
            target=(wanted - POINTS) / wanted,
            note=f"{STEPS} steps with {BATCH} pictures each from random weights, 10,000 for the "
            f"test; the losses of one step differ by {off:.4f} at most",
        ),
        Row(
            name="LeNet-5 learns Fashion-MNIST: a step",
            value=ours.seconds / STEPS,
            unit="s",
            baseline="plain",
            baseline_value=base.seconds / STEPS,
        ),
    ]
