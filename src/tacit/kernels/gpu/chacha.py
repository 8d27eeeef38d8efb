"""The ChaCha20 stream (RFC 8439, with Bernstein's original 64-bit counter and 64-bit nonce).

A lane makes a block of 64 bytes, sixteen 32-bit words; the sixteen words of all lanes are sixteen
tensors.
"""

# mypy: disable-error-code="assignment"
# Tuples grow in unrolled loops.

from collections.abc import Sequence
from itertools import accumulate

import triton
import triton.language as tl
from torch import Tensor

from ..stream import MOST_STREAMS
from .jit import blocks, kernel, signed
from .planes import stack

LANES = 128
SIGNS = {"add": 1, "sub": -1, "xor": 0}


def chacha20(key: Tensor, out: Tensor, operation: int, offset: int) -> Tensor:
    """Fills `out` with bytes [offset, offset + out.nbytes) of the stream of (key, operation).

    Returns `out`, which is contiguous. `key` has eight int32 words on the same device; the offset
    is a multiple of 4.
    """
    words = out.nbytes // 4
    block, skip = divmod(offset // 4, 16)
    if words:
        grid = (blocks(skip + words, 16 * LANES), 1, 1)
        is_aligned = skip == 0 and out.data_ptr() % 16 == 0
        arguments = (key, out, words, signed(block), skip, signed(operation))
        _fill(grid, arguments, (is_aligned, LANES))
    return out


def chacha20_many(
    keys: Sequence[Tensor], out: Tensor, sizes: Sequence[int], operation: int, firsts: Sequence[int]
) -> Tensor:
    """Fills `out` with blocks of at most MOST_STREAMS streams, one after the other; returns `out`.

    sizes, firsts: of each stream, how many blocks, and the number of the first.
    """
    ends = list(accumulate(sizes))
    grid, missing = (blocks(ends[-1], LANES), 1, 1), MOST_STREAMS - len(keys)
    starts = [end - size for end, size in zip(ends, sizes, strict=True)]
    places = [signed((f - s) % (1 << 64)) for f, s in zip(firsts, starts, strict=True)]
    keys, places, ends = ([*x, *[x[-1]] * missing] for x in (keys, places, ends))
    arguments = (*keys, out, ends[-1], signed(operation), *ends[:-1], *places)
    _fill_many(grid, arguments, (LANES,))
    return out


def chacha20_mask(key: Tensor, values: Tensor, how: str, operation: int, offset: int) -> Tensor:
    """Adds, subtracts or XORs the words that `chacha20` would write to `values`; returns `values`.

    The words stay in registers. The offset is a multiple of the size of a value.
    """
    count, each = values.numel(), 64 // values.itemsize
    block, skip = divmod(offset // values.itemsize, each)
    if count:
        grid = (blocks(skip + count, each * LANES), 1, 1)
        arguments = (key, values, count, signed(block), skip, signed(operation))
        _mask(grid, arguments, (SIGNS[how], each == 8, LANES))
    return values


@triton.jit
def _quarter(
    a: tl.tensor, b: tl.tensor, c: tl.tensor, d: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Returns the four words after a quarter round (RFC 8439, 2.1)."""
    a += b
    d ^= a
    d = (d << 16) | (d >> 16)
    c += d
    b ^= c
    b = (b << 12) | (b >> 20)
    a += b
    d ^= a
    d = (d << 8) | (d >> 24)
    c += d
    b ^= c
    b = (b << 7) | (b >> 25)
    return a, b, c, d


@triton.jit
def key_words(key: tl.tensor) -> tl.tuple:
    """Returns the eight words of a key."""
    words = ()
    for i in tl.static_range(8):
        words += (tl.load(key + i).to(tl.uint32, bitcast=True),)
    return words


@triton.jit
def _half(number: tl.tensor, high: tl.constexpr) -> tl.tensor:
    """Returns the low or high 32 bits of an integer of 64."""
    return ((number.to(tl.int64) >> (32 if high else 0)) & 0xFFFFFFFF).to(tl.uint32)


@triton.jit
def key_blocks(key: tl.tuple, counter: tl.tensor, operation: tl.tensor) -> tl.tuple:
    """Returns the sixteen words of the blocks with these numbers; `key` has eight."""
    zero = (counter * 0).to(tl.uint32)
    # The constants "expand 32-byte k", then the key, the number of the block, the operation.
    s0, s1, s2, s3 = zero + 0x61707865, zero + 0x3320646E, zero + 0x79622D32, zero + 0x6B206574
    s4, s5, s6, s7 = zero + key[0], zero + key[1], zero + key[2], zero + key[3]
    s8, s9, s10, s11 = zero + key[4], zero + key[5], zero + key[6], zero + key[7]
    s12, s13 = _half(counter, False), _half(counter, True)
    s14, s15 = zero + _half(operation, False), zero + _half(operation, True)
    a0, a1, a2, a3, b0, b1, b2, b3 = s0, s1, s2, s3, s4, s5, s6, s7
    c0, c1, c2, c3, d0, d1, d2, d3 = s8, s9, s10, s11, s12, s13, s14, s15
    for _ in range(10):  # four quarter rounds on columns, then four on diagonals
        a0, b0, c0, d0 = _quarter(a0, b0, c0, d0)
        a1, b1, c1, d1 = _quarter(a1, b1, c1, d1)
        a2, b2, c2, d2 = _quarter(a2, b2, c2, d2)
        a3, b3, c3, d3 = _quarter(a3, b3, c3, d3)
        a0, b1, c2, d3 = _quarter(a0, b1, c2, d3)
        a1, b2, c3, d0 = _quarter(a1, b2, c3, d0)
        a2, b3, c0, d1 = _quarter(a2, b3, c0, d1)
        a3, b0, c1, d2 = _quarter(a3, b0, c1, d2)
    low = (a0 + s0, a1 + s1, a2 + s2, a3 + s3, b0 + s4, b1 + s5, b2 + s6, b3 + s7)
    high = (c0 + s8, c1 + s9, c2 + s10, c3 + s11, d0 + s12, d1 + s13, d2 + s14, d3 + s15)
    return low + high


@kernel()
def _fill(
    key: tl.tensor,
    out: tl.tensor,
    words: tl.int64,
    first: tl.int64,
    skip: tl.int64,
    operation: tl.int64,
    ALIGNED: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Writes `words` words of the stream from word `skip` of block `first` on."""
    start = tl.program_id(0).to(tl.int64) * LANES
    tile = stack(key_blocks(key_words(key), start + tl.arange(0, LANES) + first, operation))
    tile = tile.to(tl.int32, bitcast=True)
    place = start * 16 - skip + tl.arange(0, LANES)[:, None] * 16 + tl.arange(0, 16)[None, :]
    to = out.to(tl.pointer_type(tl.int32), bitcast=True) + place
    if ALIGNED:
        to = tl.multiple_of(to, (4, 16))
        if (start + LANES) * 16 <= words:
            tl.store(to, tile)
        else:
            tl.store(to, tile, mask=place < words)
    else:
        tl.store(to, tile, mask=(place >= 0) & (place < words))


@triton.jit
def _chosen(block: tl.tensor, ends: tl.tuple, choices: tl.tuple) -> tl.tensor:
    """Returns, for each block, the choice of the stream that it belongs to."""
    chosen = choices[4]
    for i in tl.static_range(4):
        chosen = tl.where(block < ends[3 - i], choices[3 - i], chosen)
    return chosen


@kernel()
def _fill_many(
    key0: tl.tensor,
    key1: tl.tensor,
    key2: tl.tensor,
    key3: tl.tensor,
    key4: tl.tensor,
    out: tl.tensor,
    count: tl.int64,
    operation: tl.int64,
    end0: tl.int64,
    end1: tl.int64,
    end2: tl.int64,
    end3: tl.int64,
    place0: tl.int64,
    place1: tl.int64,
    place2: tl.int64,
    place3: tl.int64,
    place4: tl.int64,
    LANES: tl.constexpr,
) -> None:
    """Writes `count` blocks: up to end0 from the stream of key0, and so on.

    A place is added to the number of a block to make the counter of its stream.
    """
    block, ends = (
        tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES),
        (end0, end1, end2, end3),
    )
    k0, k1, k2 = key_words(key0), key_words(key1), key_words(key2)
    k3, k4 = key_words(key3), key_words(key4)
    key = ()
    for i in tl.static_range(8):
        key += (_chosen(block, ends, (k0[i], k1[i], k2[i], k3[i], k4[i])),)
    counter = block + _chosen(block, ends, (place0, place1, place2, place3, place4))
    tile = stack(key_blocks(key, counter, operation)).to(tl.int32, bitcast=True)
    to = out.to(tl.pointer_type(tl.int32), bitcast=True)
    to += block[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(tl.multiple_of(to, (4, 16)), tile, mask=block[:, None] < count)


@triton.jit
def pairs(words: tl.tuple) -> tl.tuple:
    """Returns eight words of 64 bits out of sixteen of 32, the low half first."""
    joined = ()
    for i in tl.static_range(8):
        joined += (words[2 * i].to(tl.uint64) | (words[2 * i + 1].to(tl.uint64) << 32),)
    return joined


@kernel()
def _mask(
    key: tl.tensor,
    values: tl.tensor,
    count: tl.int64,
    first: tl.int64,
    skip: tl.int64,
    operation: tl.int64,
    SIGN: tl.constexpr,
    WIDE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """values = values + SIGN * stream, or XOR the stream if SIGN is 0; WIDE for 64-bit values."""
    start = tl.program_id(0).to(tl.int64) * LANES
    words = key_blocks(key_words(key), start + tl.arange(0, LANES) + first, operation)
    EACH: tl.constexpr = 8 if WIDE else 16
    if WIDE:
        tile = stack(pairs(words)).to(tl.int64, bitcast=True)
    else:
        tile = stack(words).to(tl.int32, bitcast=True)
    place = start * EACH - skip + tl.arange(0, LANES)[:, None] * EACH + tl.arange(0, EACH)[None, :]
    is_inside = (place >= 0) & (place < count)
    old = tl.load(values + place, mask=is_inside)
    tl.store(values + place, old ^ tile if SIGN == 0 else old + SIGN * tile, mask=is_inside)
