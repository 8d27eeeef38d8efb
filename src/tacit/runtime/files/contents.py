"""What a reader of files gets and returns, and the error with which it rejects a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor

from ...nn.checkpoint_contents import DTYPES
from ...tables import Csv, Kind, Missing

ELEMENT_BYTES = 8  # of the widest number, and of a share of any number
MOST_DEFLATED = 1032  # bytes that gzip and zip can make of one

_WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}


class FileRejected(Exception):
    """Why a file is rejected, in words that every party may see: no cell, no path, no position.

    Of numbers, the reason has those of the program: limit=, columns= and constants. `path` is the
    file at fault and `place` the position in it, or a count; only its owner sees them.
    """

    def __init__(self, reason: str, path: object = None, place: str = "") -> None:
        super().__init__(reason)
        self.reason, self.path, self.place = reason, path, place


class Budget:
    """How many elements a file may still hold; readers ask before they allocate."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._left = limit // ELEMENT_BYTES

    def take(self, shape: Sequence[int]) -> None:
        """Subtracts a tensor of this shape; rejects the file if nothing is left."""
        self._left -= prod(max(size, 1) for size in shape)
        if self._left < 0:
            raise FileRejected(
                f"it holds more than limit={self.limit} bytes, {ELEMENT_BYTES} for each element: "
                "load less of it, or give a higher limit= at every party"
            )


@dataclass(frozen=True)
class Options:
    """How the owner wants its file to be read."""

    budget: Budget
    columns: tuple[str | int, ...] | None = None
    kinds: tuple[Kind, ...] | None = None  # what is declared of these columns
    without: tuple[str | int, ...] = ()
    missing: Missing = "error"  # for columns of which nothing is declared
    header: bool | None = None
    csv: Csv | None = None
    size: tuple[int, int] | None = None

    @property
    def is_of_a_table(self) -> bool:
        """Whether they choose or declare columns."""
        return self.columns is not None or self.without != () or self.missing != "error"

    @property
    def declared(self) -> dict[str, str] | None:
        """What all parties compare: columns and their kinds, in words."""
        if self.columns is None or self.kinds is None:
            return None
        names = [f"columns[{column!r}]" for column in self.columns]
        return dict(zip(names, map(repr, self.kinds), strict=True))


@dataclass(frozen=True)
class Contents:
    """The tensors of a file by name; `form` says what they become: one, a dict, or pictures."""

    form: str
    tensors: Mapping[str, Tensor]
    classes: int = 0


def single(tensor: Tensor) -> Contents:
    """Returns the contents of a file with one tensor."""
    return Contents("tensor", {"": tensor})


def to_sharable_dtype(tensor: Tensor) -> Tensor:
    """Returns the tensor in a dtype that secrets can have."""
    if tensor.dtype == torch.uint64 and tensor.numel() and tensor.view(torch.int64).min() < 0:
        raise FileRejected("it holds integers of 2^63 and more")
    tensor = tensor.to(_WIDER.get(tensor.dtype, tensor.dtype))
    if tensor.dtype not in DTYPES.values():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise FileRejected(f"it holds {kind}: allowed are {', '.join(DTYPES)}")
    return tensor.contiguous()


def require_package(name: str, install: str) -> Any:
    """Imports an optional package; the rejection says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise FileRejected(
            f"reading it takes the package {install}, which is not installed there: "
            f"pip install {install}, or 'tacit[data]'"
        ) from None


class Stream(Protocol):
    """A file, or a decompressor of one."""

    def read(self, size: int, /) -> bytes: ...


def read_into(stream: Stream, buffer: memoryview) -> None:
    """Fills a buffer from a stream."""
    place = 0
    while place < len(buffer):
        piece = stream.read(min(len(buffer) - place, 1 << 20))
        if not piece:
            raise FileRejected("it ends too early", place=f", {len(buffer) - place} bytes")
        buffer[place : place + len(piece)] = piece
        place += len(piece)
