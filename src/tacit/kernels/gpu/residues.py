"""Encodes words as residues before a product, and decodes sums of products of residues after it.

NOTE [float residues]. A word is x = a + b 2^16 + c 2^32 + d 2^48 with digits of magnitude <= 2^15
(`_digits`; a carry may make one 2^15 itself). With centred weights w_j = 2^(16 j) f mod m, where f
is 1, or the inverse for a right operand, v = a w_0 + b w_1 + c w_2 + d w_3 is x f mod m, and
|v| <= 2^15 sum_j |w_j| < 2^24: float32 holds v and every partial sum exactly, whether multiply-adds
are fused or not. Adding and subtracting 3 * 2^22 rounds to an integer, so that q = round(v / m) up
to the errors of the reciprocal and the product, 2^-24 each: |v - q m| <= m / 2 + 2^-23 |v|. For the
weights of every odd modulus that is below 128 (`test_gpu_products.py` checks it), so it is a byte.
Modulo 256 only the low byte counts, and any q is right. Adding 3 * 2^22 once more leaves the
residue in the last byte of the float's bits.

NOTE [transposed tiles]. If words are read along one dimension and bytes are written along the
other, the compiler moves a tile through shared memory, first the tile of addresses, then that of
residues. Triton 3.6 leaves out the barrier between them: on an H200 the first plane came out mixed
up, with any number of warps but one. So `write_residues` has a barrier of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .jit import launch
from .residue_system import factors, system_of, weights

ENCODED = 1024  # words that a program encodes
COMBINED = 512  # words that a program decodes


# ---- words into residues ------------------------------------------------------------------------


@triton.jit
def _digits(low: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Returns the signed digits of base 2^16 of words of 32 bits, the second with the carry."""
    return ((low << 16) >> 16).to(tl.float32), ((low >> 16) + ((low >> 15) & 1)).to(tl.float32)


@triton.jit
def write_residues(
    x: tl.tensor,
    out: tl.tensor,
    mask: tl.tensor,
    table: tl.tensor,
    plane: tl.tensor,
    PLANES: tl.constexpr,
    WIDE: tl.constexpr,
) -> None:
    """Writes the residues of words at `out`, each modulus `plane` bytes after the one before.

    12582912 is 3 * 2^22, see NOTE [float residues].
    """
    low = x.to(tl.int32)
    a, b = _digits(low)
    if WIDE:
        high = (x >> 32).to(tl.int32)
        c, d = _digits(high)
        c += ((low >> 31) & 1).to(tl.float32)
    for p in tl.static_range(PLANES):
        row = table + p * 8
        v = a * tl.load(row) + b * tl.load(row + 1)
        if WIDE:
            v += c * tl.load(row + 2)
            v += d * tl.load(row + 3)
        q = (v * tl.load(row + 5) + 12582912.0) - 12582912.0
        r = (v - q * tl.load(row + 4)) + 12582912.0
        tl.debug_barrier()  # see NOTE [transposed tiles]
        tl.store(out + p * plane, r.to(tl.int32, bitcast=True).to(tl.int8), mask=mask)


@triton.jit(do_not_specialize=[*range(3, 13)], do_not_specialize_on_alignment=["x"])
def _encode(
    x: tl.tensor,
    out: tl.tensor,
    table: tl.tensor,
    total: tl.tensor,
    batch: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    rows_out: tl.tensor,
    units: tl.tensor,
    s1: tl.tensor,
    s2: tl.tensor,
    sr: tl.tensor,
    sc: tl.tensor,
    PLANES: tl.constexpr,
    WIDE: tl.constexpr,
    UNIT: tl.constexpr,
    BR: tl.constexpr,
    BC: tl.constexpr,
    ALONG: tl.constexpr,
) -> None:
    """Writes out[p, b1, b2, row, column]: residues, with zeros beyond the rows and columns of x.

    b2 < batch, and a plane has `total` rows of `units` times UNIT bytes. ALONG says in which
    dimension x is contiguous: 1 along columns, 0 along rows, 2 neither.
    """
    ld = units * UNIT
    across = tl.cdiv(ld, BC)
    tiles = tl.cdiv(rows_out, BR) * across
    pid = tl.program_id(0)
    b, tile = pid // tiles, pid % tiles
    r = (tile // across) * BR + tl.arange(0, BR)
    c = (tile % across) * BC + tl.arange(0, BC)
    wide_r, wide_c = r.to(tl.int64), c.to(tl.int64)
    at_r = wide_r if ALONG == 0 else wide_r * sr
    at_c = wide_c if ALONG == 1 else wide_c * sc
    start = (b // batch).to(tl.int64) * s1 + (b % batch).to(tl.int64) * s2
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    words = tl.load(x + start + at_r[:, None] + at_c[None, :], mask=inside, other=0)
    to = out + b.to(tl.int64) * rows_out * ld + (wide_r * ld)[:, None] + wide_c[None, :]
    written = (r < rows_out)[:, None] & (c < ld)[None, :]
    write_residues(words, to, written, table, total.to(tl.int64) * ld, PLANES, WIDE)


def encode(
    x: Tensor,
    sizes: Sequence[int],
    strides: Sequence[int],
    ld: int,
    *,
    rows_out: int = 0,
    right: bool = False,
) -> Tensor:
    """Returns the residues of x, read as (b1, b2, rows, columns) with these strides in words.

    The result is int8 (planes, b1 * b2 * rows_out * ld), with zeros beyond the rows and columns; ld
    is a power of two or a multiple of 32. `right` multiplies by the inverses for right operands.
    """
    system = system_of(x)
    b1, b2, rows, columns = sizes
    rows_out = rows_out or rows
    s1, s2, sr, sc = strides
    total = b1 * b2 * rows_out
    made = x.new_empty((system.planes, total * ld), dtype=torch.int8)
    if rows_out == 1:  # tiles of one row are slow: b2 takes the place of the rows
        b2, rows, rows_out, s2, sr = 1, b2, b2, 0, s2
    bc, unit = min(64, ld), min(32, ld)
    br = min(ENCODED // bc, triton.next_power_of_2(rows_out))
    launch(
        _encode,
        (b1 * b2 * -(-rows_out // br) * -(-ld // bc), 1),
        (x, made, weights(system.bits, right, x.device)),
        (total, b2, rows, columns, rows_out, ld // unit, s1, s2, sr, sc),
        {
            "PLANES": system.planes,
            "WIDE": system.bits == 64,
            "UNIT": unit,
            "BR": br,
            "BC": bc,
            "ALONG": 1 if sc == 1 else 0 if sr == 1 else 2,
        },
    )
    return made


# ---- sums into words ----------------------------------------------------------------------------


@triton.jit
def reduced(sums: tl.tensor, table: tl.tensor, p: tl.tensor) -> tl.tensor:
    """Returns sums of 32 bits modulo the p-th modulus, as centred bytes.

    The quotient is off by at most 1/2 + 2^-39 |sum|, so that for sums up to 2^29 the remainder is
    below (1/2 + 2^-10) m < 128 for every odd m. Modulo 256 the low byte of the sum is the residue.
    """
    row = table + p * 8
    product = sums.to(tl.int64) * tl.load(row + 1).to(tl.int64)
    quotient = ((product + (1 << 37)) >> 38).to(tl.int32)
    return (sums - quotient * tl.load(row)).to(tl.int8)


@triton.jit
def _ratio(t: tl.tensor, row: tl.tensor, REDUCED: tl.constexpr) -> tl.tensor:
    """Returns t_i / m_i with 22 fraction bits if t_i is reduced, else with 38."""
    if REDUCED:
        return t * tl.load(row + 2)
    else:  # noqa: RET505  (one of the two is compiled)
        return t.to(tl.int64) * tl.load(row + 1).to(tl.int64)


@triton.jit
def _rounded(ratio: tl.tensor, REDUCED: tl.constexpr) -> tl.tensor:
    """Returns q = round(sum_i t_i / m_i)."""
    if REDUCED:
        return (ratio + (1 << 21)) >> 22
    else:  # noqa: RET505
        return ((ratio + (1 << 37)) >> 38).to(tl.int32)


@triton.jit
def _add_multiple(
    low: tl.tensor, high: tl.tensor, t: tl.tensor, row: tl.tensor, WIDE: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Returns low + 2^32 high, increased by t times the factor of a row, mod 2^64 or mod 2^32.

    The factor's halves need one wide and one narrow product instead of a 64-bit one.
    """
    if WIDE:
        return low + t.to(tl.int64) * tl.load(row + 3).to(tl.int64), high + t * tl.load(row + 4)
    else:  # noqa: RET505
        return low + t * tl.load(row + 3), high


@triton.jit(do_not_specialize=["total", "units"], do_not_specialize_on_alignment=["out"])
def _combine(
    sums: tl.tensor,
    out: tl.tensor,
    table: tl.tensor,
    total: tl.tensor,
    units: tl.tensor,
    PLANES: tl.constexpr,
    WIDE: tl.constexpr,
    REDUCED: tl.constexpr,
    ADDED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Decodes `total` words: X = sum_i t_i (M / m_i) - q M, added to `out` if ADDED.

    A plane has the sums t_i of one modulus, 8 `units` of them.
    """
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    plane = units.to(tl.int64) * 8
    there, mask = at < plane, at < total
    t = tl.load(sums + at, mask=there, other=0).to(tl.int32)
    high = tl.zeros_like(t)
    low = high.to(tl.int64) if WIDE else high
    low, high = _add_multiple(low, high, t, table, WIDE)
    ratio = _ratio(t, table, REDUCED)
    for p in tl.static_range(1, PLANES):
        row = table + p * 8
        t = tl.load(sums + p * plane + at, mask=there, other=0).to(tl.int32)
        low, high = _add_multiple(low, high, t, row, WIDE)
        ratio += _ratio(t, row, REDUCED)
    low, high = _add_multiple(low, high, _rounded(ratio, REDUCED), table + PLANES * 8, WIDE)
    word = low + (high.to(tl.int64) << 32) if WIDE else low
    if ADDED:
        word += tl.load(out + at, mask=mask, other=0)
    tl.store(out + at, word, mask=mask)


def combine(sums: Tensor, out: Tensor, *, added: bool = False) -> None:
    """Fills `out`, contiguous, with the words that the sums in planes represent, or adds them.

    Sums are int8 if they are reduced, else int32; each is of at most `depth` products. A plane has
    a multiple of 8 of them, of which the first out.numel() are used.
    """
    system, total = system_of(out), out.numel()
    launch(
        _combine,
        (-(-total // COMBINED), 1),
        (sums, out, factors(system.bits, out.device)),
        (total, sums.numel() // (8 * system.planes)),
        {
            "PLANES": system.planes,
            "WIDE": system.bits == 64,
            "REDUCED": sums.dtype == torch.int8,
            "ADDED": added,
            "BLOCK": COMBINED,
        },
    )


def empty_sums(out: Tensor) -> Tensor:
    """Returns empty planes of bytes for the reduced sums of `out`, of a multiple of 16 each."""
    planes = system_of(out).planes
    return out.new_empty((planes, -(-out.numel() // 16) * 16), dtype=torch.int8)
