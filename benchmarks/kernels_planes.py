"""Bit planes and packed bits against memcpy of the same bytes; a * b + c against torch. One thread.

The bytes are those of the elements: read by bit_planes and pack_bits, written by from_bit_planes.
16 MB: the allocator then reuses the memory of the results, as it does for layers of that size.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from benchmarks.measure import Row, interleaved, one_thread, rate, words

from tacit.kernels import bit_planes, from_bit_planes, mul_add, pack_bits

NUM_BYTES = 16 << 20
TARGET = 0.2

WIDE = (
    "limit: the vector units, not memory: a KB needs 256 shuffles, 192 shifts, 192 selects and 128 "
    "stores, 450 cycles where two units take 16 bytes and a store occupies both (5.7 GB/s at "
    "2.5 GHz); reached about 0.7 of it, the rest is waiting for cache lines that jump by a plane"
)
BACK = "limit: as bit_planes; the planes are read and the elements written"
NARROW = "limit: reading memory once; the words are narrowed first, a plane is a 64th of the input"
PRODUCT = "limit: memory, three operands to read where memcpy has one"


def bandwidth(name: str, *args: Any, **kwargs: Any) -> Row:
    return rate(f"{name}, 16 MB", NUM_BYTES, "GB/s", *args, **kwargs)


def plane_rows(x: torch.Tensor) -> list[Row]:
    copy, planes = torch.empty_like(x), bit_planes(x, 64)
    seconds = interleaved(
        {
            "memcpy": lambda: ctypes.memmove(copy.data_ptr(), x.data_ptr(), NUM_BYTES),
            "64": lambda: bit_planes(x, 64),
            "32": lambda: bit_planes(x, 32, 8),
            "8": lambda: bit_planes(x, 8, 16),
            "pack": lambda: pack_bits(x),
            "back": lambda: from_bit_planes(planes, x.shape, x.dtype),
        }
    )
    word = "of 64-bit words"
    return [
        bandwidth(f"bit_planes {word}", seconds, ("64", "memcpy"), target=TARGET, note=WIDE),
        bandwidth(f"bit_planes {word}, 32 bits", seconds, ("32", "memcpy")),
        bandwidth(f"bit_planes {word}, 8 bits", seconds, ("8", "memcpy"), note=NARROW),
        bandwidth(f"pack_bits {word}", seconds, ("pack", "memcpy"), note=NARROW),
        bandwidth("from_bit_planes", seconds, ("back", "memcpy"), target=TARGET, note=BACK),
    ]


def product_row(x: torch.Tensor) -> Row:
    y, z = x.flip(0), x + 1
    seconds = interleaved(
        {"ours": lambda: mul_add(x, y, z), "torch.addcmul": lambda: torch.addcmul(z, x, y)}
    )
    name = "a * b + c of 64-bit words"
    return bandwidth(name, seconds, ("ours", "torch.addcmul"), note=PRODUCT)


def rows() -> list[Row]:
    """All on one thread."""
    with one_thread():
        x = words(NUM_BYTES // 8)
        return [*plane_rows(x), product_row(x)]
