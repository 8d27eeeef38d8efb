"""The fixed binary layout of everything that parties send.

A message is a header, a table with one entry for each tensor (dtype, number of dims, dims), and the
tensors' memory one after another. If its header says fewer bytes than its tensors have, the rest
follows in parts: a header without a table, and the next bytes (NOTE [tiles]), or a header that says
in how many slices they come on other connections (NOTE [stripes]). All integers are little-endian.
Nothing here is evaluated: bytes are compared with what is expected, or refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from ctypes import c_char
from enum import IntEnum
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import ConfigError, FrameRejected

MAGIC = b"TCIT"
VERSION = 6
MAX_TABLE_BYTES = 1 << 16
SHORT_BYTES = 1 << 17  # up to so many, a message is sent at once, and read through one buffer
SHORT_TENSOR_BYTES = SHORT_BYTES - (1 << 12)  # of its tensors, with space for its head

HEADER = struct.Struct("<4sBBHI16sQQQ16s")
NO_DIGEST = bytes(16)
OPERATION_AT, DIGEST_AT = struct.calcsize("<4sBBHI16s"), HEADER.size - len(NO_DIGEST)  # in a header
_ENTRY = struct.Struct("<BB")


class Kind(IntEnum):
    """What a message is."""

    HELLO = 1
    TENSORS = 2
    BYTES = 3
    BYE = 4
    ABORT = 5
    BEAT = 6
    PART = 7
    STRIPED = 8  # a part on other connections; `tensors` of its header is the number of slices


class Spec(NamedTuple):
    """The shape and dtype of a tensor that a receiver expects."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class Header(NamedTuple):
    """The start of every message; `size` counts the bytes after the table."""

    magic: bytes
    version: int
    kind: int
    tensors: int
    table_bytes: int
    session: bytes
    operation: int
    size: int
    sent_at: int  # monotonic clock, ns; 0 on a link that is not shaped
    digest: bytes  # of the sender's public record


class Layout(NamedTuple):
    """How tensors of given specs lie in a message."""

    specs: tuple[Spec, ...]
    table: bytes
    sizes: tuple[int, ...]
    size: int


DTYPES: tuple[torch.dtype, ...] = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)
_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}


@lru_cache(maxsize=4096)
def layout(specs: tuple[tuple[tuple[int, ...], torch.dtype], ...]) -> Layout:
    """The layout of a message with tensors of these shapes and dtypes."""
    table = b"".join(_entry(*spec) for spec in specs)
    if len(table) > MAX_TABLE_BYTES:
        raise ConfigError(
            f"{len(specs)} tensors need a table of {len(table)} bytes, over the "
            f"limit of {MAX_TABLE_BYTES}",
            remedy="concatenate them, or use several exchanges",
        )
    sizes = tuple(prod(shape) * dtype.itemsize for shape, dtype in specs)
    return Layout(tuple(Spec(*spec) for spec in specs), table, sizes, sum(sizes))


def _entry(shape: tuple[int, ...], dtype: torch.dtype) -> bytes:
    if dtype not in _CODES:
        raise ConfigError(f"{dtype} tensors cannot be sent", remedy=f"view them as one of {DTYPES}")
    return _ENTRY.pack(_CODES[dtype], len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)


def pack(
    kind: Kind,
    session: bytes,
    operation: int,
    layout: Layout,
    size: int,
    sent_at: int = 0,
    digest: bytes = NO_DIGEST,
) -> bytes:
    """The header and table of a message whose remaining bytes are `size`."""
    specs, table = layout[0], layout[1]
    counts = len(specs), len(table)
    head = HEADER.pack(MAGIC, VERSION, kind, *counts, session, operation, size, sent_at, digest)
    return head + table


def pack_striped(
    session: bytes, operation: int, count: int, size: int, sent_at: int, digest: bytes
) -> bytes:
    """The header of a part of `size` bytes that come in so many slices; see NOTE [stripes]."""
    fields = count, 0, session, operation, size, sent_at, digest
    return HEADER.pack(MAGIC, VERSION, Kind.STRIPED, *fields)


def parse_header(data: Any) -> Header:
    """The header at the start of `data`, if it is one."""
    if len(data) < HEADER.size:
        raise FrameRejected(f"{len(data)} bytes are too few for a header of {HEADER.size}")
    header = Header._make(HEADER.unpack_from(data))
    if header.magic != MAGIC:
        raise FrameRejected("the bytes do not start like a message of Tacit")
    if header.version != VERSION:
        raise FrameRejected(f"frame version {header.version}", limit=f"this party speaks {VERSION}")
    if header.table_bytes > MAX_TABLE_BYTES:
        raise FrameRejected(
            f"a table of {header.table_bytes} bytes is over the limit of {MAX_TABLE_BYTES}"
        )
    return header


def parse_table(table: bytes, tensors: int) -> list[Spec]:
    """The specs that a table describes, if it is consistent."""
    specs, at = [], 0
    try:
        for _ in range(tensors):
            code, dims = _ENTRY.unpack_from(table, at)
            shape = struct.unpack_from(f"<{dims}Q", table, at + _ENTRY.size)
            specs.append(Spec(shape, DTYPES[code]))
            at += _ENTRY.size + 8 * dims
    except (struct.error, IndexError) as error:
        raise FrameRejected(f"the table of {tensors} tensors is cut short or unknown") from error
    if at != len(table):
        raise FrameRejected(f"the table of {tensors} tensors has {len(table) - at} bytes too many")
    return specs


def plain(tensor: Tensor) -> Tensor:
    """The tensor itself if its memory can be sent as it lies, else a copy that can."""
    if not (tensor.is_cpu and tensor.is_contiguous()):
        tensor = tensor.detach().cpu().contiguous()
    if not tensor.data_ptr() and tensor.nbytes:
        raise ConfigError(f"a {type(tensor).__name__} has no memory of its own to send")
    return tensor


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a plain tensor, which must outlive it."""
    return memoryview((c_char * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")


def bytes_between(tensors: Iterable[Tensor], start: int, end: int) -> list[Tensor]:
    """Returns bytes [start, end) of plain tensors that lie one after another in a message."""
    found, first = [], 0
    for tensor in tensors:
        low, high = max(start - first, 0), min(end - first, tensor.nbytes)
        if low < high:
            found.append(tensor.view(-1).view(torch.uint8)[low:high])
        first += tensor.nbytes
    return found


def describe(specs: Sequence[Spec]) -> str:
    """Specs as people write them: `int64[2, 3], uint8[5]`."""
    names = (f"{str(dtype).removeprefix('torch.')}{list(shape)}" for shape, dtype in specs)
    return ", ".join(names) or "nothing"
