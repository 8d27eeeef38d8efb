"""Residual networks (He et al. 2016) with the names and the stride placement of torchvision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """Returns a projection of a block's input to the size of its output; None if they match."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):
    """Two convolutions of 3 x 3 beside a shortcut."""

    expansion: ClassVar[int] = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.downsample = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        result: Tensor = self.relu(self.bn2(self.conv2(x)) + shortcut)
        return result


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 with the stride, 1 x 1, beside a shortcut."""

    expansion: ClassVar[int] = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = _conv(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _conv(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.downsample = _shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        result: Tensor = self.relu(self.bn3(self.conv3(x)) + shortcut)
        return result


class ResNet(nn.Module):
    """A stem, four stages of blocks, an average over the picture, a dense layer.

    Any picture of at least 32 x 32 will do; the published networks take 224 x 224. `width` is that
    of the first stage.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        *,
        num_classes: int = 1000,
        width: int = 64,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        inputs = width
        for stage, depth in enumerate(depths):
            wide, stride = width << stage, 2 if stage else 1
            blocks = [block(inputs, wide, stride)]
            inputs = wide * block.expansion
            blocks += [block(inputs, wide, 1) for _ in range(depth - 1)]
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.stages = len(depths)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inputs, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in range(self.stages):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        scores: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return scores


def resnet18(*, num_classes: int = 1000) -> ResNet:
    """11,689,512 parameters with 1000 classes."""
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes=num_classes)


def resnet34(*, num_classes: int = 1000) -> ResNet:
    """21,797,672 parameters with 1000 classes."""
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes=num_classes)


def resnet50(*, num_classes: int = 1000) -> ResNet:
    """25,557,032 parameters with 1000 classes."""
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes=num_classes)


def resnet101(*, num_classes: int = 1000) -> ResNet:
    """44,549,160 parameters with 1000 classes."""
    return ResNet(Bottleneck, (3, 4, 23, 3), num_classes=num_classes)


def resnet152(*, num_classes: int = 1000) -> ResNet:
    """60,192,808 parameters with 1000 classes."""
    return ResNet(Bottleneck, (3, 8, 36, 3), num_classes=num_classes)
