"""A folder of pictures, one subfolder for each class."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .contents import Contents, FileRejected, Options, require_package

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP", ".webp": "WEBP"}
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
MOST_PIXELS = 1 << 26  # of one picture


@dataclass(frozen=True)
class Pictures:
    """Secret pictures and classes: `images, labels = pictures`. The number of classes is public.

    images: N x 3 x height x width, 0 to 1. labels: N numbers from 0 on, int64.
    """

    images: Tensor
    labels: Tensor
    classes: int

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.images, self.labels))


def read_pictures(path: Path, options: Options) -> Contents:
    """Reads pictures; the class of each is the index of its subfolder, in alphabetical order.

    The rows stand in an order that is drawn here: the order of the files would tell the classes,
    because all parties know how many there are and which row is which.
    """
    library = require_package("PIL.Image", "pillow")
    folders = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    found = [(label, p) for label, folder in enumerate(folders) for p in _files(folder)]
    if not found:
        raise FileRejected(
            "a folder of pictures has a subfolder for each class, with pictures in it"
        )
    secrets.SystemRandom().shuffle(found)
    first = _picture(library, found[0][1], options.size)
    options.budget.take((len(found), *first.shape))
    pictures = np.empty((len(found), *first.shape), np.uint8)
    for number, (_, file) in enumerate(found):
        picture = _picture(library, file, options.size)
        if picture.shape != first.shape:
            raise FileRejected(
                "a picture has another size than the first: size=(height, width) makes them alike",
                file,
            )
        pictures[number] = picture
    images = torch.from_numpy(pictures).movedim(-1, 1).to(torch.float32) / 255
    labels = torch.tensor([label for label, _ in found])
    tensors = {"images": images.contiguous(), "labels": labels}
    return Contents("pictures", tensors, len(folders))


def _files(folder: Path) -> list[Path]:
    return sorted(
        p for p in folder.iterdir() if p.suffix.lower() in FORMATS and not p.name.startswith(".")
    )


def _picture(library: Any, file: Path, size: tuple[int, int] | None) -> np.ndarray:
    """Returns height x width x 3 bytes; checks the header before decompressing."""
    try:
        with library.open(file, formats=sorted(set(FORMATS.values()))) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise FileRejected(f"a picture has more than {MOST_PIXELS} pixels", file)
            if picture.mode not in MODES:
                raise FileRejected("a picture has more than 8 bits for a colour", file)
            plain = picture.convert("RGB")
            if size is not None:
                plain = plain.resize((size[1], size[0]), library.Resampling.BILINEAR)
            return np.asarray(plain)
    except FileRejected:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise FileRejected(f"a picture cannot be read ({kind})", file) from None
