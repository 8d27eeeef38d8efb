"""Files of arrays: .npy, .npz, .idx (the format of the MNIST files) and .safetensors.

Headers are checked before memory is allocated; no code from a file is ever run.
"""

from __future__ import annotations

import gzip
import re
import zipfile
from math import prod
from pathlib import Path
from struct import unpack

import numpy as np
import torch
from torch import Tensor

from .contents import (
    MOST_DEFLATED,
    Contents,
    FileRejected,
    Options,
    Stream,
    read_into,
    require_package,
    single,
    to_sharable_dtype,
)

MAGIC = b"\x93NUMPY"
MOST_HEADER = 1 << 16
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}  # of the header's length, by version
_DTYPE = re.compile(r"""['"]descr['"]: *['"]([<>|=]?[biuf][1248])['"]""")
_ORDER = re.compile(r"""['"]fortran_order['"]: *(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]: *\(([\d, ]*)\)""")
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_IDX_DTYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_npy(path: Path, options: Options) -> Contents:
    """Reads the array of a .npy file."""
    with path.open("rb") as file:
        return single(_npy_array(file, path.stat().st_size, options))


def read_npz(path: Path, options: Options) -> Contents:
    """Reads the arrays of a .npz file, by name."""
    tensors: dict[str, Tensor] = {}
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        for number, member in enumerate(archive.infolist()):
            name, place = member.filename.removesuffix(".npy"), f" at member {number}"
            if name in tensors or name == member.filename:
                raise FileRejected("a member is a second one of its name, or no .npy", place=place)
            if member.compress_type not in _COMPRESSIONS:
                raise FileRejected(
                    "a member is compressed in a way that numpy does not write", place=place
                )
            if member.file_size > min(member.compress_size, size) * MOST_DEFLATED:
                raise FileRejected("a member is shorter than it says", place=place)
            with archive.open(member) as file:
                tensors[name] = _npy_array(file, member.file_size, options)
                if file.read(1):
                    raise FileRejected("a member is longer than it says", place=place)
    return Contents("dict", tensors)


def _npy_array(file: Stream, size: int, options: Options) -> Tensor:
    """Reads an array of `size` bytes; checks its header before allocating."""
    start = file.read(len(MAGIC) + 2)
    if len(start) < len(MAGIC) + 2 or not start.startswith(MAGIC):
        raise FileRejected("it is no npy array: its first bytes are others")
    width = _LENGTH_BYTES.get(start[-2])
    if width is None:
        raise FileRejected("it is of another npy version than 1 to 3")
    length = int.from_bytes(file.read(width), "little")
    if length > MOST_HEADER:
        raise FileRejected(f"its npy header is longer than {MOST_HEADER} bytes")
    dtype, fortran, shape = _npy_header(file.read(length).decode("latin-1"))
    options.budget.take(shape)
    if prod(shape) * dtype.itemsize != size - len(start) - width - length:
        raise FileRejected("its length is not that of the array in its header")
    array = np.empty(shape, dtype, order="F" if fortran else "C")
    read_into(file, array.reshape(-1, order="A").view(np.uint8).data)
    return to_sharable_dtype(
        torch.from_numpy(array.astype(dtype.newbyteorder("="), order="C", copy=False))
    )


def _npy_header(text: str) -> tuple[np.dtype, bool, tuple[int, ...]]:
    found = [pattern.findall(text) for pattern in (_DTYPE, _ORDER, _SHAPE)]
    if [len(matches) for matches in found] != [1, 1, 1]:
        raise FileRejected(
            "its npy header is not that of an array of plain numbers; arrays of objects, of text "
            "or of records are never read"
        )
    [[dtype], [order], [shape]] = found
    return np.dtype(dtype), order == "True", tuple(map(int, re.findall(r"\d+", shape)))


def read_idx(path: Path, options: Options) -> Contents:
    """Reads the array of an .idx file, also compressed with gzip."""
    size = path.stat().st_size
    if path.suffix == ".gz":
        with gzip.open(path) as packed:
            return _idx_array(packed, size * MOST_DEFLATED, options)
    with path.open("rb") as file:
        return _idx_array(file, size, options)


def _idx_array(file: Stream, size: int, options: Options) -> Contents:
    """Reads an array of at most `size` bytes; checks its header before allocating."""
    start = bytearray(4)
    read_into(file, memoryview(start))
    if start[:2] != b"\0\0" or start[2] not in _IDX_DTYPES:
        raise FileRejected("it is no idx file: its first bytes are others")
    sizes = bytearray(4 * start[3])
    read_into(file, memoryview(sizes))
    shape, dtype = unpack(f">{start[3]}I", sizes), np.dtype(_IDX_DTYPES[start[2]])
    options.budget.take(shape)
    if prod(shape) * dtype.itemsize > size:
        raise FileRejected("it is shorter than the array in its header")
    array = np.empty(shape, dtype)
    read_into(file, array.reshape(-1).view(np.uint8).data)
    if file.read(1):
        raise FileRejected("it is longer than the array in its header")
    return single(
        to_sharable_dtype(torch.from_numpy(array.astype(dtype.newbyteorder("="), copy=False)))
    )


def read_safetensors(path: Path, options: Options) -> Contents:
    """Reads tensors by name. The package checks that the header describes every byte."""
    safetensors = require_package("safetensors", "safetensors")
    tensors = {}
    with safetensors.safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 (it is no dict)
            options.budget.take(file.get_slice(name).get_shape())
            tensors[name] = to_sharable_dtype(file.get_tensor(name).clone())
    return Contents("dict", tensors)
