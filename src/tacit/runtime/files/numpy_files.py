"""`.npy` and `.npz`: arrays of plain numbers, read without ever running what a file says."""

from __future__ import annotations

import re
import zipfile
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .contents import MOST_DEFLATED, Contents, Options, Refusal, Stream, fill, one, plain

MAGIC = b"\x93NUMPY"
MOST_HEADER = 1 << 16
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}  # of the header's length, by version
_DTYPE = re.compile(r"""['"]descr['"]: *['"]([<>|=]?[biuf][1248])['"]""")
_ORDER = re.compile(r"""['"]fortran_order['"]: *(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]: *\(([\d, ]*)\)""")
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_npy(path: Path, options: Options) -> Contents:
    """The array."""
    with path.open("rb") as file:
        return one(_array(file, path.stat().st_size, options))


def read_npz(path: Path, options: Options) -> Contents:
    """The arrays by name."""
    tensors: dict[str, Tensor] = {}
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        for number, member in enumerate(archive.infolist()):
            name = member.filename.removesuffix(".npy")
            if name in tensors or name == member.filename:
                raise Refusal(f"member {number} is a second one of its name, or no .npy")
            if member.compress_type not in _COMPRESSIONS:
                raise Refusal(f"member {number} is compressed in a way that numpy does not write")
            if member.file_size > min(member.compress_size, size) * MOST_DEFLATED:
                raise Refusal(f"member {number} is shorter than it says")
            with archive.open(member) as file:
                tensors[name] = _array(file, member.file_size, options)
                if file.read(1):
                    raise Refusal(f"member {number} is longer than it says")
    return Contents("dict", tensors)


def _array(file: Stream, size: int, options: Options) -> Tensor:
    """The array in `size` bytes, whose header is checked before anything is allocated."""
    start = file.read(len(MAGIC) + 2)
    if len(start) < len(MAGIC) + 2 or not start.startswith(MAGIC):
        raise Refusal("it is no npy array: its first bytes are others")
    width = _LENGTH_BYTES.get(start[-2])
    if width is None:
        raise Refusal(f"it is of npy version {start[-2]}: known are 1 to 3")
    length = int.from_bytes(file.read(width), "little")
    if length > MOST_HEADER:
        raise Refusal(f"its npy header is longer than {MOST_HEADER} bytes")
    dtype, fortran, shape = _header(file.read(length).decode("latin-1"))
    options.budget.take(shape)
    if prod(shape) * dtype.itemsize != size - len(start) - width - length:
        raise Refusal("its length is not that of the array in its header")
    array = np.empty(shape, dtype, order="F" if fortran else "C")
    fill(file, array.reshape(-1, order="A").view(np.uint8).data)
    return plain(torch.from_numpy(array.astype(dtype.newbyteorder("="), order="C", copy=False)))


def _header(text: str) -> tuple[np.dtype, bool, tuple[int, ...]]:
    found = [pattern.findall(text) for pattern in (_DTYPE, _ORDER, _SHAPE)]
    if [len(matches) for matches in found] != [1, 1, 1]:
        raise Refusal(
            "its npy header is not that of an array of plain numbers; arrays of objects, of text "
            "or of records are never read"
        )
    [[dtype], [order], [shape]] = found
    return np.dtype(dtype), order == "True", tuple(map(int, re.findall(r"\d+", shape)))
