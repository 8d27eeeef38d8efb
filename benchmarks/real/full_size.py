"""The largest convolutional networks of the zoo, at 224 x 224, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from benchmarks.measure import Row
from torch import Tensor, nn

from tacit import zoo

from .inference import compared

SIDE = 224


def random_network(make: Callable[[], nn.Module]) -> tuple[nn.Module, Tensor]:
    """Kaiming's weights, running statistics of two random pictures; and another picture."""
    torch.manual_seed(0)
    model = make()
    for part in model.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None  # the statistics become those of the next batch
    with torch.no_grad():
        model.train()(torch.randn(2, 3, SIDE, SIDE))
    return model.eval(), torch.randn(1, 3, SIDE, SIDE)


def rows(**parties: Any) -> list[Row]:
    return [
        *compared("ResNet-18, 224 x 224", *random_network(zoo.resnet18), batch=1, **parties),
        *compared("VGG-16, 224 x 224", *random_network(zoo.vgg16), batch=1, **parties),
    ]
