"""Trains networks in an enclave that is a process; it writes down by how much it grew.

The caller gets the weights. Arguments: a folder, an outsourcing, a limit, and names of networks.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tests.enclave.grown import growth
from tests.enclave.limited import seal_everything, use_threads
from tests.enclave.trainings import train
from torch import Tensor, nn

import tacit


def lenet(width: int = 6) -> nn.Module:
    first = [nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(width, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*first, *second, nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 10))


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


def dense() -> nn.Module:
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers)


NETWORKS = {"lenet": (lenet, (1, 28, 28)), "vgg": (vgg, (3, 32, 32)), "dense": (dense, (784,))}


def prepared(session: tacit.Session, name: str, batch: int) -> tuple[nn.Module, Tensor, Tensor]:
    make, shape = NETWORKS[name]
    torch.manual_seed(3)
    model = session.share(make(), owner=0)
    x = session.share(torch.rand(batch, *shape), owner=0)
    return model, x, session.share(torch.arange(batch) % 10, owner=0)


def main(
    session: tacit.Session, folder: str, batches: dict[str, int], threads: int = 0
) -> list[Tensor]:
    """The weights after two steps of training each network with so many images.

    threads: that move chunks of a limited memory.
    """
    if session.is_enclave and session.sealed_memory is not None:
        use_threads(session.protocol.memory, threads)
    for name in batches:
        train(*prepared(session, name, 2), steps=1)  # loads what is loaded late
    grown, weights = {}, []
    for name, batch in batches.items():
        model, x, y = prepared(session, name, batch)
        if session.is_enclave and session.sealed_memory is not None:
            seal_everything(session.protocol.memory)
        if session.is_enclave:
            with growth() as found:
                train(model, x, y, steps=2)
                grown[name] = found()
        else:
            train(model, x, y, steps=2)
        weights.append(
            session.reveal(nn.utils.parameters_to_vector(model.parameters()).detach(), to=0)
        )
    if session.is_enclave:
        Path(folder, "grown.json").write_text(json.dumps(grown))
    return weights
