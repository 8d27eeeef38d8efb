"""A network that was trained on CIFAR-10, on its test pictures."""

from __future__ import annotations

from benchmarks.measure import Row

from . import trained, vision
from .inference import compared

COUNT, BATCH = 200, 10


def rows() -> list[Row]:
    images, _ = vision.cifar10_test()
    return compared("CIFAR-10 network", trained.cifar10_network(), images[:COUNT], batch=BATCH)
