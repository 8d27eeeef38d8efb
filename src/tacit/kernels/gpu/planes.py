"""Bit planes and packed bits (`tacit.kernels.planes`).

Square matrices of bits, 64 elements of 64 bits or 32 of 32, are transposed in registers. A lane
holds a matrix and exchanges halves, quarters, ... of pairs of its rows: with elements numbered
8 c + r, first the three bits of r with the low three bits of the number of a bit, then those of c
with the high ones. A plane of 32-bit elements is a row of half words.
"""

# mypy: disable-error-code="assignment"
# Tuples grow in unrolled loops.

from collections.abc import Sequence
from math import prod

import torch
import triton
import triton.language as tl
from torch import Tensor

from .jit import blocks, kernel

LANES = 16
WORD = 64
TILE = 16  # words of a program that packs bits
FLAT = 1024  # elements of a program that treats each by itself


def bit_planes(x: Tensor, width: int, low: int) -> Tensor:
    """Returns bits [low, low + width) of x as planes, of shape (width, ceil(x.numel() / 64))."""
    return _planes(x, width, low, 0)


def quotient_planes(x: Tensor, width: int, shift: int) -> Tensor:
    """Returns the low `width` bits of -(-x >> shift), x / 2^shift rounded up, as planes."""
    return _planes(x, width, 0, shift)


def _planes(x: Tensor, width: int, low: int, shift: int) -> Tensor:
    x, words = x.contiguous(), blocks(x.numel(), WORD)
    planes = x.new_empty((width, words), dtype=torch.int64)
    if words:
        bits = 8 * x.element_size()
        parts = words * WORD // bits
        arguments = (x, planes, x.numel(), parts, low, width, shift)
        _to_planes((blocks(parts, LANES), 1, 1), arguments, (bits, LANES))
    return planes


def from_bit_planes(
    planes: Tensor, shape: Sequence[int], dtype: torch.dtype, *, signed: bool = False
) -> Tensor:
    """Returns the tensor whose low bits are the planes; the last one is repeated if `signed`."""
    planes = planes.contiguous()
    out = planes.new_empty(tuple(shape), dtype=dtype)
    if count := out.numel():
        bits = 8 * out.element_size()
        parts = planes.shape[1] * WORD // bits
        width = planes.shape[0]
        arguments = (planes, out, count, parts, width, bits if signed else width)
        _from_planes((blocks(parts, LANES), 1, 1), arguments, (bits, LANES))
    return out


def pack_bits(bits: Tensor) -> Tensor:
    """Returns bit 0 of each element, packed in ceil(bits.numel() / 64) words."""
    bits = _plain(bits.contiguous())
    words = bits.new_empty(blocks(bits.numel(), WORD), dtype=torch.int64)
    if count := bits.numel():
        _pack((blocks(len(words), TILE), 1, 1), (bits, words, count), (TILE,))
    return words


def unpack_bits(words: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns the tensor of this shape of the zeros and ones that the words hold."""
    words, out = words.contiguous(), words.new_empty(tuple(shape), dtype=dtype)
    if count := prod(shape):
        _unpack((blocks(count, FLAT), 1, 1), (words, _plain(out), count), (FLAT,))
    return out


def popcount(words: Tensor) -> Tensor:
    """Returns the number of ones in each int64 word."""
    return _each_word(words, parity=False)


def parity(words: Tensor) -> Tensor:
    """Returns the XOR of the 64 bits of each int64 word, 0 or 1."""
    return _each_word(words, parity=True)


def _each_word(words: Tensor, *, parity: bool) -> Tensor:
    words = words.contiguous()
    out = torch.empty_like(words)
    if count := words.numel():
        _ones((blocks(count, FLAT), 1, 1), (words, out, count), (parity, FLAT))
    return out


def _plain(bits: Tensor) -> Tensor:
    """Returns the tensor, with bools as bytes."""
    return bits.view(torch.uint8) if bits.dtype == torch.bool else bits


@triton.jit
def stack(x: tl.tuple) -> tl.tensor:
    """Returns a tuple of 4, 8 or 16 tensors as one: x[i] is at index i of a new last dimension."""
    tl.static_assert(len(x) == 16 or len(x) == 8 or len(x) == 4)
    count: tl.constexpr = len(x)
    shape: tl.constexpr = x[0].shape
    for level in tl.static_range(4):
        if (count >> level) > 1:
            pairs = ()
            for i in tl.static_range(count >> (level + 1)):
                pairs += (tl.join(x[i], x[i + (count >> (level + 1))]),)
            x = pairs
    return x[0].reshape(shape + (count,))  # noqa: RUF005


@triton.jit
def unbind(x: tl.tensor) -> tl.tuple:
    """Returns the tensors at the indices of the last dimension as a tuple: undoes `stack`."""
    count: tl.constexpr = x.shape[len(x.shape) - 1]
    parts = (x,)
    for level in tl.static_range(4):
        if (count >> level) > 1:
            even = ()
            odd = ()
            for i in tl.static_range(1 << level):
                low, high = tl.split(_in_pairs(parts[i]))
                even += (low,)
                odd += (high,)
            parts = even + odd
    return parts


@triton.jit
def _in_pairs(x: tl.tensor) -> tl.tensor:
    """Returns a 3-d tensor with its last dimension cut into pairs, unless it is one pair."""
    if x.shape[len(x.shape) - 1] > 2:
        x = x.reshape(x.shape[0], x.shape[1], x.shape[2] // 2, 2)
    return x


@triton.jit
def _exchange(x: tl.tuple, STEP: tl.constexpr, BIT: tl.constexpr, BITS: tl.constexpr) -> tl.tuple:
    """Exchanges the bit of weight STEP of the tuple's index with that of weight BIT in a word.

    Element i with i & STEP == 0 gets the low halves of pieces of BIT bits of x[i] and x[i + STEP],
    element i + STEP the high halves: a transpose of 2x2 matrices of such pieces.
    """
    low: tl.constexpr = ((1 << BITS) - 1) // ((1 << BIT) + 1)
    result = ()
    for i in tl.static_range(len(x)):
        if (i & STEP) == 0:
            moved = ((x[i] >> BIT) ^ x[i + STEP]) & low
            result += (x[i] ^ (moved << BIT),)
        else:
            moved = ((x[i - STEP] >> BIT) ^ x[i]) & low
            result += (x[i] ^ moved,)
    return result


@triton.jit
def _exchange_low(x: tl.tuple, BITS: tl.constexpr) -> tl.tuple:
    """Exchanges the index r with the low three bits of the number of a bit in a word."""
    x = _exchange(x, 1, 1, BITS)
    x = _exchange(x, 2, 2, BITS)
    return _exchange(x, 4, 4, BITS)


@triton.jit
def _exchange_high(x: tl.tuple, BITS: tl.constexpr) -> tl.tuple:
    """Exchanges the index c with the high bits of the number of a bit in a word."""
    x = _exchange(x, 1, 8, BITS)
    x = _exchange(x, 2, 16, BITS)
    if BITS == 64:
        x = _exchange(x, 4, 32, BITS)
    return x


@triton.jit
def _lane(LANES: tl.constexpr) -> tl.tensor:
    """Returns the number of each lane among those of all programs."""
    return tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)


@kernel()
def _to_planes(
    x: tl.tensor,
    planes: tl.tensor,
    count: tl.int64,
    parts: tl.int64,
    low: tl.int64,
    width: tl.int64,
    shift: tl.int64,
    BITS: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Writes the planes of bits [low, low + width) of -(-x >> shift); `parts` matrices in all."""
    kind: tl.constexpr = tl.int64 if BITS == 64 else tl.int32
    part = _lane(LANES)
    at = part[:, None] * BITS + tl.arange(0, BITS)[None, :]
    tile = tl.load(x + at, mask=at < count, other=0)
    tile = -(-tile >> shift.to(kind))
    tile = tile.to(tl.uint64 if BITS == 64 else tl.uint32, bitcast=True)
    by_r = unbind(tile.reshape(LANES, BITS // 8, 8))
    by_c = unbind(stack(_exchange_low(by_r, BITS)).permute(0, 2, 1))
    by_c = _exchange_high(by_c, BITS)
    to = planes.to(tl.pointer_type(kind), bitcast=True) + part[:, None]
    for c in tl.static_range(BITS // 8):
        row = 8 * c - low + tl.arange(0, 8)[None, :]
        wanted = (row >= 0) & (row < width) & (part < parts)[:, None]
        tl.store(to + row * parts, by_c[c].to(kind, bitcast=True), mask=wanted)


@kernel()
def _from_planes(
    planes: tl.tensor,
    out: tl.tensor,
    count: tl.int64,
    parts: tl.int64,
    width: tl.int64,
    reach: tl.int64,
    BITS: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Writes the elements of `width` planes; bits below `reach` repeat the last plane."""
    kind: tl.constexpr = tl.int64 if BITS == 64 else tl.int32
    part = _lane(LANES)
    start = planes.to(tl.pointer_type(kind), bitcast=True) + part[:, None]
    by_c = ()
    for c in tl.static_range(BITS // 8):
        row = tl.arange(0, 8)[None, :] + 8 * c
        there = (part < parts)[:, None] & (row < reach)
        row = tl.load(start + tl.minimum(width - 1, row) * parts, mask=there, other=0)
        by_c += (row.to(tl.uint64 if BITS == 64 else tl.uint32, bitcast=True),)
    by_r = unbind(stack(_exchange_high(by_c, BITS)).permute(0, 2, 1))
    tile = stack(_exchange_low(by_r, BITS)).reshape(LANES, BITS)
    at = part[:, None] * BITS + tl.arange(0, BITS)[None, :]
    tl.store(out + at, tile.to(kind, bitcast=True), mask=at < count)


@triton.jit
def pack(tile: tl.tensor) -> tl.tensor:
    """Returns rows of 64 zeros and ones as words."""
    return tl.sum(tile.to(tl.int64) << tl.arange(0, 64)[None, :].to(tl.int64), axis=1)


@kernel()
def _pack(bits: tl.tensor, words: tl.tensor, count: tl.int64, TILE: tl.constexpr) -> None:
    """Writes bit 0 of `count` elements as words."""
    word = _lane(TILE)
    at = word[:, None] * 64 + tl.arange(0, 64)[None, :]
    tile = tl.load(bits + at, mask=at < count, other=0)
    tl.store(words + word, pack(tile & 1), mask=word * 64 < count)


@triton.jit
def unpack(words: tl.tensor, at: tl.tensor, there: tl.tensor) -> tl.tensor:
    """Returns the bits of packed words that belong to the elements `at`, 0 or 1."""
    word = tl.load(words + (at >> 6), mask=there, other=0)
    return (word >> (at & 63)) & 1


@kernel()
def _unpack(words: tl.tensor, out: tl.tensor, count: tl.int64, FLAT: tl.constexpr) -> None:
    """Writes the bits of words as `count` elements."""
    at = _lane(FLAT)
    there = at < count
    tl.store(out + at, unpack(words, at, there).to(out.dtype.element_ty), mask=there)


@kernel()
def _ones(
    words: tl.tensor, out: tl.tensor, count: tl.int64, PARITY: tl.constexpr, FLAT: tl.constexpr
) -> None:
    """Writes the number of ones of each word, or its parity."""
    at = _lane(FLAT)
    x = tl.load(words + at, mask=at < count, other=0).to(tl.uint64, bitcast=True)
    if PARITY:
        for i in tl.static_range(6):
            x ^= x >> (32 >> i)
        x &= 1
    else:
        x = x - ((x >> 1) & 0x5555555555555555)
        x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
        x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
        x = (x * 0x0101010101010101) >> 56
    tl.store(out + at, x.to(tl.int64, bitcast=True), mask=at < count)
