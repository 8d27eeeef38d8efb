"""Average or maximum: averages are free on secrets, a maximum costs comparisons."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from ..errors import ConfigError

POOLINGS = {"avg": nn.AvgPool2d, "max": nn.MaxPool2d}

# The data sets whose forms the papers use: classes, and pixels a side.
CLASSES = {"cifar10": 10, "tiny_imagenet": 200, "imagenet": 1000}
SIDES = {"cifar10": 32, "tiny_imagenet": 64, "imagenet": 224}


def pooling(kind: str, size: int, stride: int | None = None) -> nn.Module:
    """The pooling layer of a kind, "avg" or "max"."""
    if kind not in POOLINGS:
        raise ConfigError(f"pool={kind!r}", limit=f"allowed are {', '.join(map(repr, POOLINGS))}")
    return POOLINGS[kind](size, stride or size)


def check_data(data: str) -> None:
    if data not in CLASSES:
        raise ConfigError(f"data={data!r}", limit=f"allowed are {', '.join(map(repr, CLASSES))}")


def dense(*sizes: int) -> list[nn.Module]:
    """Linear layers of these sizes with a ReLU between each two."""
    layers: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        layers += [nn.ReLU()] * bool(i) + [nn.Linear(inputs, outputs)]
    return layers
