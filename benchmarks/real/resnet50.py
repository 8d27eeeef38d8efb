"""ResNet-50, trained on ImageNet, on pictures of 224 x 224 and on nine parts of each."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.measure import Row
from torch import Tensor

from . import trained, vision
from .inference import compared

PART = 112


def cut_up(images: Tensor) -> Tensor:
    """Nine overlapping parts of each picture, of half its height and width."""
    starts = (0, PART // 2, PART)
    cut = [images[..., y : y + PART, x : x + PART] for y in starts for x in starts]
    return torch.cat(cut)


def rows(**parties: Any) -> list[Row]:
    images, _ = vision.imagenet_pictures()
    model = trained.resnet50()
    whole = compared("ResNet-50, ImageNet", model, images, batch=1, **parties)
    cut = cut_up(images)
    return whole + compared("ResNet-50, parts of 112 x 112", model, cut, batch=4, **parties)
