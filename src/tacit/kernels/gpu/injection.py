"""Bits into the ring and exact truncation (`tacit.kernels.injection`), on contiguous tensors."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launch import Kernel, blocks, kernel
from .planes import pack, unpack

FLAT = 1024  # elements of a program
TILE = 16  # words of 64 elements of a program that packs bits


def inject_share(
    bits: Tensor,
    opened: Tensor,
    flip: Tensor,
    product: Tensor,
    own: Tensor,
    *,
    first: bool,
    out: Tensor,
) -> Tensor:
    """`out`, plus (1 - 2b)(opened flip + product) + b own, and b opened where `first`."""
    return _start(_inject_share, (out, bits, opened, flip, product, own), -first)


def flip_share(bits: Tensor, flip: Tensor, *, first: bool, out: Tensor) -> Tensor:
    """`out`, to which (1 - 2b) flip, and b where `first`, is added."""
    return _start(_flip_share, (out, bits, flip), int(first))


def deal_flip(bits: Tensor, pad_flip: Tensor) -> Tensor:
    """`pad_flip`, replaced by y - pad_flip."""
    return _start(_deal_flip, (pad_flip, bits))


def deal_injection(
    bits: Tensor, mask: Tensor, pad_flip: Tensor, pad_product: Tensor
) -> tuple[Tensor, Tensor]:
    """The pads, replaced by y - pad_flip and y mask - pad_product."""
    return _start(_deal_injection, (pad_flip, pad_product, bits, mask)), pad_product


def exact_share(
    opened: Tensor, quotient: Tensor, top: Tensor, t: int, *, first: bool, out: Tensor
) -> Tensor:
    """`out`, to which a share of floor(x / 2^t) or of one more is added."""
    return _start(_exact_share, (out, opened, quotient, top), -first, t)


def inject_exact_share(
    bits: Tensor,
    opened: Tensor,
    flip: Tensor,
    flip_low: Tensor,
    low: Tensor,
    top: Tensor,
    flip_top: Tensor,
    t: int,
    *,
    first: bool,
    out: Tensor,
) -> Tensor:
    """`out`, to which a share of bit * floor(x / 2^t), or of one more, is added."""
    pointers = (out, bits, opened, flip, flip_low, low, top, flip_top)
    return _start(_inject_exact_share, pointers, -first, t)


def deal_exact(mask: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """The quotient of -mask and its packed top bits."""
    quotient, top = torch.empty_like(mask), _words(mask)
    if count := mask.numel():
        grid = (blocks(len(top), TILE), 1, 1)
        _deal_exact(grid, (mask, quotient, top, count, t), (8 * mask.element_size(), TILE))
    return quotient, top


def deal_inject_exact(bits: Tensor, mask: Tensor, t: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """low and y low of -mask; the top bits and y AND them, packed."""
    made = torch.empty_like(mask), torch.empty_like(mask), _words(mask), _words(mask)
    if count := mask.numel():
        grid = (blocks(len(made[2]), TILE), 1, 1)
        arguments = (bits, mask, *made, count, t)
        _deal_inject_exact(grid, arguments, (8 * mask.element_size(), TILE))
    return made


def _start(which: Kernel, pointers: tuple[Tensor, ...], *numbers: int) -> Tensor:
    """The first of the pointers, after a start for all its elements."""
    out = pointers[0]
    if count := out.numel():
        grid = (blocks(count, FLAT), 1, 1)
        which(grid, (*pointers, count, *numbers), (8 * out.element_size(), FLAT))
    return out


def _words(like: Tensor) -> Tensor:
    return like.new_empty(blocks(like.numel(), 64), dtype=torch.int64)


@triton.jit
def _kind(x, BITS: tl.constexpr):
    """A number or a tensor in the ring's type."""
    return x.to(tl.int64 if BITS == 64 else tl.int32)


@triton.jit
def _here(count, FLAT: tl.constexpr):
    """The element of each lane, and whether there is one."""
    at = tl.program_id(0).to(tl.int64) * FLAT + tl.arange(0, FLAT)
    return at, at < count


@triton.jit
def _spread(bits, at, there, BITS: tl.constexpr):
    """-1 where an element's bit is set, else 0."""
    return _kind(-unpack(bits, at, there), BITS)


@triton.jit
def _shift(x, t, BITS: tl.constexpr):
    """floor(x / 2^t) of the unsigned x."""
    unsigned: tl.constexpr = tl.uint64 if BITS == 64 else tl.uint32
    return _kind(x.to(unsigned, bitcast=True) >> t.to(unsigned), BITS)


@triton.jit
def _known(opened, t, BITS: tl.constexpr):
    """A = (c >> t) - 2^(k-2-t) of c = opened + 2^(k-2), and -1 where c's top bit is set, else 0."""
    c = opened + (1 << (BITS - 2))
    return _shift(c, t, BITS) - (_kind(t * 0 + 1, BITS) << (BITS - 2 - t)), c >> (BITS - 1)


@triton.jit
def _times_b(x, top, t, BITS: tl.constexpr):
    """(1 - 2 top) 2^(k-1-t) x; top is 0 or -1."""
    return ((x << (BITS - 1 - t)) ^ top) - top


@kernel()
def _inject_share(
    out,
    bits,
    opened,
    flip,
    product,
    own,
    count: tl.int64,
    first: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
):
    at, there = _here(count, FLAT)
    b = _spread(bits, at, there, BITS)
    value = tl.load(opened + at, mask=there)
    z = value * tl.load(flip + at, mask=there) + tl.load(product + at, mask=there)
    kept = tl.load(own + at, mask=there) + (value & _kind(first, BITS))
    result = tl.load(out + at, mask=there) + (z ^ b) - b + (kept & b)
    tl.store(out + at, result, mask=there)


@kernel()
def _flip_share(
    out,
    bits,
    flip,
    count: tl.int64,
    first: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
):
    at, there = _here(count, FLAT)
    b = _spread(bits, at, there, BITS)
    flipped = (tl.load(flip + at, mask=there) ^ b) - b
    result = tl.load(out + at, mask=there) + flipped - b * _kind(first, BITS)
    tl.store(out + at, result, mask=there)


@kernel()
def _deal_flip(pad_flip, bits, count: tl.int64, BITS: tl.constexpr, FLAT: tl.constexpr):
    at, there = _here(count, FLAT)
    y = _spread(bits, at, there, BITS)
    tl.store(pad_flip + at, -y - tl.load(pad_flip + at, mask=there), mask=there)


@kernel()
def _deal_injection(
    pad_flip, pad_product, bits, mask, count: tl.int64, BITS: tl.constexpr, FLAT: tl.constexpr
):
    at, there = _here(count, FLAT)
    y = _spread(bits, at, there, BITS)
    product = tl.load(mask + at, mask=there) & y
    tl.store(pad_flip + at, -y - tl.load(pad_flip + at, mask=there), mask=there)
    tl.store(pad_product + at, product - tl.load(pad_product + at, mask=there), mask=there)


@kernel()
def _exact_share(
    out,
    opened,
    quotient,
    top,
    count: tl.int64,
    first: tl.int64,
    t: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
):
    at, there = _here(count, FLAT)
    shift = _kind(t, BITS)
    a, c_top = _known(tl.load(opened + at, mask=there), shift, BITS)
    wrapped = (tl.load(top + at, mask=there) & c_top) << (BITS - shift)
    result = tl.load(out + at, mask=there) + (a & _kind(first, BITS))
    result = result - tl.load(quotient + at, mask=there) - wrapped
    tl.store(out + at, result, mask=there)


@kernel()
def _inject_exact_share(
    out,
    bits,
    opened,
    flip,
    flip_low,
    low,
    top,
    flip_top,
    count: tl.int64,
    first: tl.int64,
    t: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
):
    at, there = _here(count, FLAT)
    shift = _kind(t, BITS)
    b = _spread(bits, at, there, BITS)
    a, c_top = _known(tl.load(opened + at, mask=there), shift, BITS)
    z = a * tl.load(flip + at, mask=there) - tl.load(flip_low + at, mask=there)
    z += _times_b(tl.load(flip_top + at, mask=there), c_top, shift, BITS)
    kept = _times_b(tl.load(top + at, mask=there), c_top, shift, BITS)
    kept += (a & _kind(first, BITS)) - tl.load(low + at, mask=there)
    result = tl.load(out + at, mask=there) + (z ^ b) - b + (kept & b)
    tl.store(out + at, result, mask=there)


@triton.jit
def _tile(count, TILE: tl.constexpr):
    """The words of a program, and the elements whose bits they hold."""
    word = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    return word, word * 64 < count, word[:, None] * 64 + tl.arange(0, 64)[None, :]


@kernel()
def _deal_exact(
    mask, quotient, top, count: tl.int64, t: tl.int64, BITS: tl.constexpr, TILE: tl.constexpr
):
    word, is_word, at = _tile(count, TILE)
    w = -tl.load(mask + at, mask=at < count, other=0)
    tl.store(quotient + at, w >> _kind(t, BITS), mask=at < count)
    tl.store(top + word, pack((w >> (BITS - 1)) & 1), mask=is_word)


@kernel()
def _deal_inject_exact(
    bits,
    mask,
    low,
    flip_low,
    top,
    flip_top,
    count: tl.int64,
    t: tl.int64,
    BITS: tl.constexpr,
    TILE: tl.constexpr,
):
    word, is_word, at = _tile(count, TILE)
    w = -tl.load(mask + at, mask=at < count, other=0)
    value = _shift(w & ((1 << (BITS - 1)) - 1), _kind(t, BITS), BITS)
    y = _spread(bits, at, at < count, BITS)
    tl.store(low + at, value, mask=at < count)
    tl.store(flip_low + at, value & y, mask=at < count)
    tops = pack((w >> (BITS - 1)) & 1)
    tl.store(top + word, tops, mask=is_word)
    tl.store(flip_top + word, tops & tl.load(bits + word, mask=is_word), mask=is_word)
