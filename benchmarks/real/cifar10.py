"""A network that was trained on CIFAR-10, on its test pictures."""

from __future__ import annotations

from typing import Any

from benchmarks.measure import Row

from . import trained, vision
from .inference import compared

COUNT, BATCH = 200, 10


def rows(**parties: Any) -> list[Row]:
    images, _ = vision.cifar10_test()
    model = trained.cifar10_network()
    return compared("CIFAR-10 network", model, images[:COUNT], batch=BATCH, **parties)
