"""The largest convolutional networks of the zoo, at 224 x 224, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from benchmarks.measure import Row
from benchmarks.random_weights import initialise
from torch import Tensor, nn

from tacit import zoo

from .inference import compared

SIDE = 224


def random_network(make: Callable[[], nn.Module]) -> tuple[nn.Module, Tensor]:
    """A network with statistics of two random pictures; and another picture."""
    torch.manual_seed(0)
    return initialise(make(), torch.randn(2, 3, SIDE, SIDE)), torch.randn(1, 3, SIDE, SIDE)


def rows(**parties: Any) -> list[Row]:
    return [
        *compared("ResNet-18, 224 x 224", *random_network(zoo.resnet18), batch=1, **parties),
        *compared("VGG-16, 224 x 224", *random_network(zoo.vgg16), batch=1, **parties),
    ]
