"""Bit planes and packed bits against memcpy of the same bytes; a * b + c against torch. One thread.

The bytes are those of the elements: read by bit_planes and pack_bits, written by from_bit_planes.
16 MB: the allocator then reuses the memory of the results, as it does for layers of that size.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from benchmarks.interleave import bandwidth_row, interleaved

from tacit.kernels import (
    bit_planes,
    from_bit_planes,
    mul_add,
    num_threads,
    pack_bits,
    set_num_threads,
)

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


def plane_rows(x: torch.Tensor) -> list[dict[str, Any]]:
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
    names = {
        "64": ("bit_planes of 64-bit words, all 64 bits", TARGET, WIDE),
        "32": ("bit_planes of 64-bit words, 32 bits", None, WIDE),
        "8": ("bit_planes of 64-bit words, 8 bits", None, NARROW),
        "pack": ("pack_bits of 64-bit words", None, NARROW),
        "back": ("from_bit_planes to 64-bit words", TARGET, BACK),
    }
    return [
        bandwidth_row(
            f"{name}, 16 MB",
            NUM_BYTES,
            seconds[key],
            baseline=("memcpy", seconds["memcpy"]),
            target=target,
            note=note,
        )
        for key, (name, target, note) in names.items()
    ]


def product_row(x: torch.Tensor) -> dict[str, Any]:
    y, z = x.flip(0), x + 1
    seconds = interleaved(
        {"ours": lambda: mul_add(x, y, z), "torch": lambda: torch.addcmul(z, x, y)}
    )
    return bandwidth_row(
        "a * b + c of 64-bit words, 16 MB",
        NUM_BYTES,
        seconds["ours"],
        baseline=("torch.addcmul", seconds["torch"]),
        target=None,
        note=PRODUCT,
    )


def rows() -> list[dict[str, Any]]:
    """All on one thread."""
    before = num_threads(), torch.get_num_threads()
    set_num_threads(1)
    torch.set_num_threads(1)
    try:
        x = torch.randint(-(2**63), 2**63 - 1, (NUM_BYTES // 8,))
        return [*plane_rows(x), product_row(x)]
    finally:
        set_num_threads(before[0])
        torch.set_num_threads(before[1])


if __name__ == "__main__":
    for each in rows():
        print(each)
