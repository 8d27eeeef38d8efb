"""ResNet-50, trained on ImageNet, on pictures of 224 x 224."""

from __future__ import annotations

from benchmarks.measure import Row

from . import trained, vision
from .inference import compared


def rows() -> list[Row]:
    images, _ = vision.imagenet_pictures()
    return compared("ResNet-50, ImageNet", trained.resnet50(), images, batch=1)
