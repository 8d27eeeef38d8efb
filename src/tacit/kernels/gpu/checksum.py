"""Checksums of tensors under a secret table, modulo 2^61 - 1: `tacit/kernels/checksum.py`."""

import triton
import triton.language as tl
from torch import Tensor

from ..checksum import PART_WORDS, num_parts
from .chacha import key_blocks, key_words, pairs
from .jit import kernel, signed

LANES = 256


def chacha20_checksum(
    table: Tensor, key: Tensor, values: Tensor, total: Tensor, operation: int, offset: int
) -> Tensor:
    """Adds the checksum of `values` to `total`; returns `total`, two int64."""
    if parts := num_parts(values):
        numbers = (values.nbytes // 4, signed(offset // 64), signed(operation))
        _checksum((parts, 1, 1), (table, key, values, total, *numbers), (PART_WORDS, LANES))
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
    LANES: tl.constexpr,
) -> None:
    """total += low and high words of a part's sum under the table, times the part's factor.

    A number of the table is three limbs of 21 bits: products with words of 32 bits add up in 64.
    """
    LIMB: tl.constexpr = (1 << 21) - 1
    PRIME: tl.constexpr = (1 << 61) - 1
    part = tl.program_id(0).to(tl.int64)
    source = values.to(tl.pointer_type(tl.int32), bitcast=True) + part * PART_WORDS
    rows, lanes = tl.arange(0, PART_WORDS // LANES), tl.arange(0, LANES)
    place = rows[:, None] * LANES + lanes[None, :]
    is_inside = place < words - part * PART_WORDS
    x = tl.load(source + place, mask=is_inside, other=0).to(tl.uint32, bitcast=True).to(tl.uint64)
    t = tl.load(table + place, mask=is_inside, other=0).to(tl.uint64, bitcast=True) & PRIME
    s0, s1 = tl.sum(x * (t & LIMB), 0), tl.sum(x * ((t >> 21) & LIMB), 0)
    s2 = tl.sum(x * (t >> 42), 0)
    sums = _folded(s0) + _shifted(s1, 21) + _shifted(s2, 42)
    low = tl.sum((sums & 0xFFFFFFFF).to(tl.int64), 0).to(tl.uint64)
    high = tl.sum((sums >> 32).to(tl.int64), 0).to(tl.uint64)
    factor = pairs(key_blocks(key_words(key), part + block, operation))[0] & PRIME
    found = _times(_folded(low + _shifted(high, 32)), factor)
    tl.atomic_add(total, (found & 0xFFFFFFFF).to(tl.int64))
    tl.atomic_add(total + 1, (found >> 32).to(tl.int64))
