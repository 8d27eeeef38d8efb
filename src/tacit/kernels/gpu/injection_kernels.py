"""The Triton kernels of `injection`: a program for some elements, or some words of packed bits.

The equations are in `tacit.kernels.injection`. Bits are spread to -1 or 0: with b such a bit, x & b
is bit x, (x ^ b) - b is (1 - 2 bit) x, and -b is the bit. `first` is spread, too, but in
`flip_share`.
"""

import triton
import triton.language as tl

from .jit import kernel
from .planes import pack, unpack


@triton.jit
def _kind(x: tl.tensor, BITS: tl.constexpr) -> tl.tensor:
    """Returns a number or a tensor in the dtype of the ring."""
    return x.to(tl.int64 if BITS == 64 else tl.int32)


@triton.jit
def _here(count: tl.tensor, FLAT: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Returns the element of each lane, and whether there is one."""
    at = tl.program_id(0).to(tl.int64) * FLAT + tl.arange(0, FLAT)
    return at, at < count


@triton.jit
def _spread(bits: tl.tensor, at: tl.tensor, there: tl.tensor, BITS: tl.constexpr) -> tl.tensor:
    """Returns -1 where an element's bit is set, else 0."""
    return _kind(-unpack(bits, at, there), BITS)


@triton.jit
def _shift(x: tl.tensor, t: tl.tensor, BITS: tl.constexpr) -> tl.tensor:
    """Returns floor(x / 2^t) of the unsigned x."""
    unsigned: tl.constexpr = tl.uint64 if BITS == 64 else tl.uint32
    return _kind(x.to(unsigned, bitcast=True) >> t.to(unsigned), BITS)


@triton.jit
def _known(opened: tl.tensor, t: tl.tensor, BITS: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Returns A = (c >> t) - 2^(k-2-t) of c = opened + 2^(k-2), and c's top bit as -1 or 0."""
    c = opened + (1 << (BITS - 2))
    return _shift(c, t, BITS) - (_kind(t * 0 + 1, BITS) << (BITS - 2 - t)), c >> (BITS - 1)


@triton.jit
def _times_b(x: tl.tensor, top: tl.tensor, t: tl.tensor, BITS: tl.constexpr) -> tl.tensor:
    """Returns B x = (1 - 2 c_top) 2^(k-1-t) x; `top` is c_top as -1 or 0."""
    return ((x << (BITS - 1 - t)) ^ top) - top


@triton.jit
def _begin(
    begin: tl.tensor, at: tl.tensor, there: tl.tensor, negate: tl.tensor, BITS: tl.constexpr
) -> tl.tensor:
    """Returns what a share is added to, negated if `negate` is -1, unchanged if it is 0."""
    sign = _kind(negate, BITS)
    return (tl.load(begin + at, mask=there) ^ sign) - sign


@kernel()
def inject_share(
    out: tl.tensor,
    begin: tl.tensor,
    bits: tl.tensor,
    opened: tl.tensor,
    flip: tl.tensor,
    product: tl.tensor,
    own: tl.tensor,
    count: tl.int64,
    first: tl.int64,
    negate: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
) -> None:
    """out = begin + (1 - 2 b) (opened flip + product) + b own, + b opened if `first`."""
    at, there = _here(count, FLAT)
    b = _spread(bits, at, there, BITS)
    value = tl.load(opened + at, mask=there)
    z = value * tl.load(flip + at, mask=there) + tl.load(product + at, mask=there)
    kept = tl.load(own + at, mask=there) + (value & _kind(first, BITS))
    result = _begin(begin, at, there, negate, BITS) + (z ^ b) - b + (kept & b)
    tl.store(out + at, result, mask=there)


@kernel()
def flip_share(
    out: tl.tensor,
    bits: tl.tensor,
    flip: tl.tensor,
    count: tl.int64,
    first: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
) -> None:
    """out += (1 - 2 b) flip, + b if `first`, which is 1 or 0 here."""
    at, there = _here(count, FLAT)
    b = _spread(bits, at, there, BITS)
    flipped = (tl.load(flip + at, mask=there) ^ b) - b
    result = tl.load(out + at, mask=there) + flipped - b * _kind(first, BITS)
    tl.store(out + at, result, mask=there)


@kernel()
def deal_flip(
    pad_flip: tl.tensor, bits: tl.tensor, count: tl.int64, BITS: tl.constexpr, FLAT: tl.constexpr
) -> None:
    """pad_flip = y - pad_flip."""
    at, there = _here(count, FLAT)
    y = _spread(bits, at, there, BITS)
    tl.store(pad_flip + at, -y - tl.load(pad_flip + at, mask=there), mask=there)


@kernel()
def deal_injection(
    pad_flip: tl.tensor,
    pad_product: tl.tensor,
    bits: tl.tensor,
    mask: tl.tensor,
    count: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
) -> None:
    """pad_flip = y - pad_flip, pad_product = y mask - pad_product."""
    at, there = _here(count, FLAT)
    y = _spread(bits, at, there, BITS)
    product = tl.load(mask + at, mask=there) & y
    tl.store(pad_flip + at, -y - tl.load(pad_flip + at, mask=there), mask=there)
    tl.store(pad_product + at, product - tl.load(pad_product + at, mask=there), mask=there)


@kernel()
def exact_share(
    out: tl.tensor,
    begin: tl.tensor,
    opened: tl.tensor,
    quotient: tl.tensor,
    top: tl.tensor,
    count: tl.int64,
    first: tl.int64,
    t: tl.int64,
    negate: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
) -> None:
    """out = begin - quotient - c_top top 2^(k-t), + A if `first`."""
    at, there = _here(count, FLAT)
    shift = _kind(t, BITS)
    a, c_top = _known(tl.load(opened + at, mask=there), shift, BITS)
    wrapped = (tl.load(top + at, mask=there) & c_top) << (BITS - shift)
    result = _begin(begin, at, there, negate, BITS) + (a & _kind(first, BITS))
    result = result - tl.load(quotient + at, mask=there) - wrapped
    tl.store(out + at, result, mask=there)


@triton.jit
def _gathered(
    values: tl.tensor,
    at: tl.tensor,
    there: tl.tensor,
    rows: tl.tensor,
    count: tl.tensor,
    BITS: tl.constexpr,
) -> tl.tensor:
    """Returns the elements of `values`; if `rows` is not 0, `values` has their planes, so many."""
    words = (count + 63) >> 6
    planes = values.to(tl.pointer_type(tl.int64), bitcast=True)
    is_whole = there & (at < count * (1 - tl.minimum(rows, 1)))
    result = _kind(tl.load(values + at, mask=is_whole, other=0), BITS)
    for row in range(rows):
        bit = unpack(planes + (rows - 1 - row) * words, at, there)
        result = (result << 1) + _kind(bit, BITS)
    return result


@kernel()
def inject_exact_share(
    out: tl.tensor,
    begin: tl.tensor,
    bits: tl.tensor,
    opened: tl.tensor,
    flip: tl.tensor,
    flip_low: tl.tensor,
    low: tl.tensor,
    top: tl.tensor,
    flip_top: tl.tensor,
    count: tl.int64,
    first: tl.int64,
    t: tl.int64,
    rows: tl.int64,
    negate: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
) -> None:
    """out = begin + (1 - 2 b) (A flip - flip_low + B flip_top) + b (B top - low).

    b A is added if `first`. `rows` is t + 1 if `top` and `flip_top` come as planes, else 0.
    """
    at, there = _here(count, FLAT)
    shift = _kind(t, BITS)
    b = _spread(bits, at, there, BITS)
    a, c_top = _known(tl.load(opened + at, mask=there), shift, BITS)
    z = a * tl.load(flip + at, mask=there) - tl.load(flip_low + at, mask=there)
    z += _times_b(_gathered(flip_top, at, there, rows, count, BITS), c_top, shift, BITS)
    kept = _times_b(_gathered(top, at, there, rows, count, BITS), c_top, shift, BITS)
    kept += (a & _kind(first, BITS)) - tl.load(low + at, mask=there)
    result = _begin(begin, at, there, negate, BITS) + (z ^ b) - b + (kept & b)
    tl.store(out + at, result, mask=there)


@kernel()
def correct_inject_exact(
    flip: tl.tensor,
    flip_low: tl.tensor,
    low: tl.tensor,
    top: tl.tensor,
    flip_top: tl.tensor,
    bits: tl.tensor,
    mask: tl.tensor,
    count: tl.int64,
    t: tl.int64,
    BITS: tl.constexpr,
    FLAT: tl.constexpr,
) -> None:
    """The pads become y, y low, low, top and y top, minus each, with w = -mask."""
    at, there = _here(count, FLAT)
    y = _spread(bits, at, there, BITS)
    w = -tl.load(mask + at, mask=there, other=0)
    value = _shift(w & ((1 << (BITS - 1)) - 1), _kind(t, BITS), BITS)
    tops = w >> (BITS - 1)  # -1 or 0
    tl.store(flip + at, -y - tl.load(flip + at, mask=there), mask=there)
    tl.store(flip_low + at, (value & y) - tl.load(flip_low + at, mask=there), mask=there)
    tl.store(low + at, value - tl.load(low + at, mask=there), mask=there)
    tl.store(top + at, -tops - tl.load(top + at, mask=there), mask=there)
    tl.store(flip_top + at, -(tops & y) - tl.load(flip_top + at, mask=there), mask=there)


@triton.jit
def _tile(count: tl.tensor, TILE: tl.constexpr) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Returns the words of a program, which of them exist, and the elements of their bits."""
    word = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    return word, word * 64 < count, word[:, None] * 64 + tl.arange(0, 64)[None, :]


@kernel()
def deal_exact(
    mask: tl.tensor,
    quotient: tl.tensor,
    top: tl.tensor,
    count: tl.int64,
    t: tl.int64,
    BITS: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """quotient = w >> t with the sign kept, top = the packed top bits of w = -mask."""
    word, is_word, at = _tile(count, TILE)
    w = -tl.load(mask + at, mask=at < count, other=0)
    tl.store(quotient + at, w >> _kind(t, BITS), mask=at < count)
    tl.store(top + word, pack((w >> (BITS - 1)) & 1), mask=is_word)


@kernel()
def deal_inject_exact(
    bits: tl.tensor,
    mask: tl.tensor,
    low: tl.tensor,
    flip_low: tl.tensor,
    top: tl.tensor,
    flip_top: tl.tensor,
    count: tl.int64,
    t: tl.int64,
    BITS: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """low and y low of w = -mask, and the packed bits top and y AND top."""
    word, is_word, at = _tile(count, TILE)
    w = -tl.load(mask + at, mask=at < count, other=0)
    value = _shift(w & ((1 << (BITS - 1)) - 1), _kind(t, BITS), BITS)
    y = _spread(bits, at, at < count, BITS)
    tl.store(low + at, value, mask=at < count)
    tl.store(flip_low + at, value & y, mask=at < count)
    tops = pack((w >> (BITS - 1)) & 1)
    tl.store(top + word, tops, mask=is_word)
    tl.store(flip_top + word, tops & tl.load(bits + word, mask=is_word), mask=is_word)
