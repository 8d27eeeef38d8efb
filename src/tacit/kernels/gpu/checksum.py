"""Checksums of tensors under a secret table, modulo 2^61 - 1: `tacit/kernels/checksum.py`."""

import triton
import triton.language as tl
from torch import Tensor

from ..checksum import PART_WORDS, num_parts
from .chacha import key_blocks, key_words, pairs
from .jit import kernel, signed

ROWS, LANES = 32, 256  # words that a program takes at one time


def chacha20_checksum(
    table: Tensor, key: Tensor, values: Tensor, total: Tensor, operation: int, offset: int
) -> Tensor:
    """Adds the checksum of `values` to `total`; returns `total`, two int64."""
    if parts := num_parts(values):
        numbers = (values.nbytes // 4, signed(offset // 64), signed(operation))
        _checksum((parts, 1, 1), (table, key, values, total, *numbers), (PART_WORDS, ROWS, LANES))
    return total


@triton.jit
def _folded(x: tl.tensor) -> tl.tensor:
    """Returns x modulo 2^61 - 1, at most 2^61 + 6."""
    PRIME: tl.constexpr = (1 << 61) - 1
    return (x & PRIME) + (x >> 61)


@triton.jit
def _shifted(x: tl.tensor, BITS: tl.constexpr) -> tl.tensor:
    """Returns 2^BITS x modulo 2^61 - 1, below 2^61 + 2^(BITS + 3)."""
    LOW: tl.constexpr = (1 << (61 - BITS)) - 1
    return ((x & LOW) << BITS) + (x >> (61 - BITS))


@triton.jit
def _times(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """Returns a b modulo 2^61 - 1, at most 2^61; a and b are at most 2^61 + 6."""
    PRIME: tl.constexpr = (1 << 61) - 1
    low, high = a * b, tl.umulhi(a, b)
    return _folded((low & PRIME) + ((low >> 61) | (high << 3)))


@triton.jit
def _column_sums(x: tl.tensor, limb: tl.tensor) -> tl.tensor:
    """Returns the sums of products of words of 32 bits with limbs, as products of 32 bits each."""
    return tl.sum(x.to(tl.uint64) * limb.to(tl.uint32).to(tl.uint64), 0)


@kernel(num_warps=8)
def _checksum(
    table: tl.tensor,
    key: tl.tensor,
    values: tl.tensor,
    total: tl.tensor,
    words: tl.int64,
    block: tl.int64,
    operation: tl.int64,
    PART_WORDS: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """total += low and high words of a part's sum under the table, times the part's factor.

    A number of the table is three limbs of 21 bits: products with words of 32 bits add up in 64.
    """
    LIMB: tl.constexpr = (1 << 21) - 1
    PRIME: tl.constexpr = (1 << 61) - 1
    part = tl.program_id(0).to(tl.int64)
    source = values.to(tl.pointer_type(tl.int32), bitcast=True) + part * PART_WORDS
    left = words - part * PART_WORDS
    rows, lanes = tl.arange(0, ROWS), tl.arange(0, LANES)
    tile = rows[:, None] * LANES + lanes[None, :]
    s0, s1, s2 = lanes.to(tl.uint64) * 0, lanes.to(tl.uint64) * 0, lanes.to(tl.uint64) * 0
    for start in range(0, PART_WORDS, ROWS * LANES):
        if start < left:
            place = start + tile
            x = tl.load(source + place, mask=place < left, other=0).to(tl.uint32, bitcast=True)
            t = tl.load(table + place, mask=place < left, other=0).to(tl.uint64, bitcast=True)
            s0 += _column_sums(x, t & LIMB)
            s1 += _column_sums(x, (t >> 21) & LIMB)
            s2 += _column_sums(x, (t & PRIME) >> 42)
    sums = _folded(s0) + _shifted(s1, 21) + _shifted(s2, 42)
    low = tl.sum((sums & 0xFFFFFFFF).to(tl.int64), 0).to(tl.uint64)
    high = tl.sum((sums >> 32).to(tl.int64), 0).to(tl.uint64)
    factor = pairs(key_blocks(key_words(key), part + block, operation))[0] & PRIME
    found = _times(_folded(low + _shifted(high, 32)), factor)
    tl.atomic_add(total, (found & 0xFFFFFFFF).to(tl.int64))
    tl.atomic_add(total + 1, (found >> 32).to(tl.int64))
