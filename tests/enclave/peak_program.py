"""Trains in an enclave, and prints by how much the process grew, as the kernel measures it."""

from __future__ import annotations

import gc
import sys

import torch
from tests.enclave.limited import seal_everything
from tests.enclave.trainings import train
from torch import nn

import tacit

grown: list[int] = []


def network() -> nn.Module:
    first = [nn.Conv2d(3, 16, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 1), nn.ReLU()]
    return nn.Sequential(*first, nn.MaxPool2d(8), nn.Flatten(), nn.Linear(1024, 10))


def bytes_of(name: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))


def main(session: tacit.Session, batch: int) -> None:
    model = session.share(network(), owner=0)
    x = session.share(torch.rand(batch, 3, 64, 64), owner=0)
    y = session.share(torch.arange(batch) % 10, owner=0)
    if session.is_enclave:
        if session.sealed_memory is not None:
            seal_everything(session.protocol.memory)
        gc.collect()
        with open("/proc/self/clear_refs", "w") as marks:
            marks.write("5")  # the peak is the present size now
        before, code = bytes_of("VmRSS"), bytes_of("RssFile")
    train(model, x, y, steps=2)
    if session.is_enclave:
        grown.append(bytes_of("VmHWM") - before - (bytes_of("RssFile") - code))


if __name__ == "__main__":
    settings = {"parties": 1, "protocol": "enclave", "outsourcing": "none"}
    for limit in map(int, sys.argv[1:]):
        for batch in (2, 64):  # the first loads what torch loads late
            tacit.run(main, batch, memory_limit=limit or None, **settings)
    print(grown[1], grown[3])
