"""The idx format of the MNIST files, also compressed with gzip."""

from __future__ import annotations

import gzip
from math import prod
from pathlib import Path
from struct import unpack

import numpy as np
import torch

from .contents import MOST_DEFLATED, Contents, Options, Refusal, Stream, fill, one, plain

_DTYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: Path, options: Options) -> Contents:
    """The array."""
    size = path.stat().st_size
    if path.suffix == ".gz":
        with gzip.open(path) as packed:
            return _read(packed, size * MOST_DEFLATED, options)
    with path.open("rb") as file:
        return _read(file, size, options)


def _read(file: Stream, size: int, options: Options) -> Contents:
    """The array in `size` bytes at most, whose header is checked before anything is allocated."""
    start = bytearray(4)
    fill(file, memoryview(start))
    if start[:2] != b"\0\0" or start[2] not in _DTYPES:
        raise Refusal("it is no idx file: its first bytes are others")
    sizes = bytearray(4 * start[3])
    fill(file, memoryview(sizes))
    shape, dtype = unpack(f">{start[3]}I", sizes), np.dtype(_DTYPES[start[2]])
    options.budget.take(shape)
    if prod(shape) * dtype.itemsize > size:
        raise Refusal("it is shorter than the array in its header")
    array = np.empty(shape, dtype)
    fill(file, array.reshape(-1).view(np.uint8).data)
    if file.read(1):
        raise Refusal("it is longer than the array in its header")
    return one(plain(torch.from_numpy(array.astype(dtype.newbyteorder("="), copy=False))))
