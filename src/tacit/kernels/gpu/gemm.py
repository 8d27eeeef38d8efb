"""Products of matrices and batches of them, by residues.

Residues of the left operand are (planes, batch, m, ld), those of the right (planes, batch, n, ld):
both are contiguous along the inner dimension, as tensor cores need bytes, and padded there with
zeros. Large products are torch's, one for each modulus (`torch._int_mm`), with sums of 32 bits.
Others are one launch over tiles and moduli, which reduces each sum to a byte. One more launch
decodes the sums. Inner dimensions beyond the system's depth are cut into parts, which are added.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import triton
import triton.language as tl
from torch import Tensor

from .direct import multiply_directly
from .jit import launch
from .residue_system import SYSTEMS, ResidueSystem, factors, system_of
from .residues import combine, empty_sums, encode, reduced

CHOOSE, PLAIN, ENCODED = 0, 1, 2  # the numbers of `kernels.matmul.METHODS`
FEW_ROWS = 4  # with so few rows or columns, words are multiplied directly

# torch's products are used from this many sums and products on, and fill so many bytes of sums. A
# block of rows must then have 17 rows or more, which `torch._int_mm` needs: see `_is_large`.
LARGE_SUMS = 1 << 20
LARGE_PRODUCTS = 1 << 31
SUMS = 1 << 30
PROGRAMS = 132  # the multiprocessors of an H200: with fewer programs, smaller tiles are used

# Rows and columns of a tile, and its warps, from large to small.
TILES = ((128, 128, 8), (128, 64, 4), (64, 64, 4), (64, 32, 4), (64, 16, 4), (16, 64, 4))


def inner(k: int) -> int:
    """Returns the bytes of a row of residues for an inner dimension, a multiple of 32 to 128."""
    step = 128 if k >= 1024 else 64 if k > 32 else 32
    return -(-k // step) * step


def block(ld: int) -> int:
    """Returns how many bytes of each row a step multiplies."""
    return 128 if ld % 128 == 0 else 64 if ld % 64 == 0 else 32


def tile(m: int, n: int, products: int) -> tuple[int, int, int]:
    """Returns the rows and columns of tiles, and their warps, for so many products of m x n."""
    if m <= 16:
        return TILES[-1]
    for bm, bn, warps in TILES[:-1]:
        fits = (bm == 64 or m > bm // 2) and (bn == 16 or n > bn // 2)
        if fits and -(-m // bm) * -(-n // bn) * products >= PROGRAMS:
            return bm, bn, warps
    return next(t for t in reversed(TILES[:-1]) if t[1] >= min(n, 64))


def stages(bm: int, bn: int, bk: int) -> int:
    """Returns how many steps are loaded ahead into shared memory: 160 KiB of them at most."""
    return max(2, min(4, (160 << 10) // ((bm + bn) * bk)))


@triton.jit(do_not_specialize=[*range(4, 13)])
def _product(
    a: tl.tensor,
    b: tl.tensor,
    out: tl.tensor,
    table: tl.tensor,
    m: tl.tensor,
    n: tl.tensor,
    batch: tl.tensor,
    units: tl.tensor,
    tiles_n: tl.tensor,
    tiles: tl.tensor,
    ld: tl.tensor,
    first: tl.tensor,
    steps: tl.tensor,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SWAPPED: tl.constexpr,
    ALIGNED: tl.constexpr,
) -> None:
    """Writes out[p, b, i, j], bytes: reduced sums of `steps` * BK products, from step `first` on.

    SWAPPED writes out[p, b, j, i] instead; ALIGNED says that rows of `out` are multiples of 16.
    Rows of residues have 32 `ld` bytes, planes of `out` 16 `units`.
    """
    if ALIGNED:
        if SWAPPED:
            m = m // 16 * 16
        else:
            n = n // 16 * 16
    pid, p = tl.program_id(0), tl.program_id(1)
    b_at = (pid // tiles).to(tl.int64)
    at = p.to(tl.int64) * batch + b_at
    i = (pid % tiles) // tiles_n * BM + tl.arange(0, BM)
    j = (pid % tiles) % tiles_n * BN + tl.arange(0, BN)
    k = first * BK + tl.arange(0, BK)
    row_a = (at * m + tl.minimum(i, m - 1)) * (ld * 32)
    row_b = (at * n + tl.minimum(j, n - 1)) * (ld * 32)
    from_a = a + row_a[:, None] + k[None, :]
    from_b = b + row_b[None, :] + k[:, None]
    sums = tl.zeros((BM, BN), dtype=tl.int32)
    for _ in range(steps):
        sums = tl.dot(tl.load(from_a), tl.load(from_b), sums, out_dtype=tl.int32)
        from_a += BK
        from_b += BK
    inside = (i < m)[:, None] & (j < n)[None, :]
    i, j = i.to(tl.int64), j.to(tl.int64)
    place = j[None, :] * m + i[:, None] if SWAPPED else i[:, None] * n + j[None, :]
    start = p.to(tl.int64) * units * 16 + b_at * m * n
    tl.store(out + start + place, reduced(sums, table, p), mask=inside)


def multiply(a: Tensor, b: Tensor, out: Tensor, sizes: tuple[int, int, int], ld: int) -> None:
    """Fills `out` with the products of residues in rows of ld bytes; `sizes` are batch, m and n."""
    depth = system_of(out).depth
    for first in range(0, ld, depth):
        part = (first, min(ld - first, depth))
        multiply_part(a, b, out, sizes, ld, part, added=first > 0)


def multiply_part(
    a: Tensor,
    b: Tensor,
    out: Tensor,
    sizes: tuple[int, int, int],
    ld: int,
    part: tuple[int, int],
    *,
    added: bool,
) -> None:
    """Fills `out` with products over a part of the rows, or adds them if `added`.

    `part` is the first byte of each row and the number of bytes.
    """
    system, (batch, m, n) = system_of(out), sizes
    if batch == 1 and _is_large(m, n, part[1]):
        _multiply_large(a, b, out, system, (m, n, ld), part, added)
    else:
        combine(_multiply_tiles(a, b, out, system, sizes, ld, part), out, added=added)


def _is_large(m: int, n: int, width: int) -> bool:
    fits = m > 16 and n % 8 == 0 and n <= SUMS >> 12
    return fits and m * n >= LARGE_SUMS and m * n * width >= LARGE_PRODUCTS


def _multiply_tiles(
    a: Tensor,
    b: Tensor,
    out: Tensor,
    system: ResidueSystem,
    sizes: tuple[int, int, int],
    ld: int,
    part: tuple[int, int],
) -> Tensor:
    """Returns the reduced sums over a part of the inner dimension."""
    batch, m, n = sizes
    swapped = m < 64 < n  # tiles have at least 64 rows: the few rows become columns
    if swapped:
        a, b, m, n = b, a, n, m
    bk = block(ld)
    bm, bn, warps = tile(m, n, batch * system.planes)
    tiles_n = -(-n // bn)
    tiles = -(-m // bm) * tiles_n
    sums = empty_sums(out)
    units = sums.shape[1] // 16
    launch(
        _product,
        (tiles * batch, system.planes),
        (a, b, sums, factors(system.bits, out.device)),
        (m, n, batch, units, tiles_n, tiles, ld // 32, part[0] // bk, part[1] // bk),
        {"BM": bm, "BN": bn, "BK": bk, "SWAPPED": swapped, "ALIGNED": sizes[2] % 16 == 0},
        num_warps=warps,
        num_stages=stages(bm, bn, bk),
    )
    return sums


def _multiply_large(
    a: Tensor,
    b: Tensor,
    out: Tensor,
    system: ResidueSystem,
    sizes: tuple[int, int, int],
    part: tuple[int, int],
    added: bool,
) -> None:
    """Fills `out`, or adds to it, by torch's products of bytes, some rows at a time."""
    (m, n, ld), (first, width) = sizes, part
    a = a.view(system.planes, m, ld)[:, :, first : first + width]
    b = b.view(system.planes, n, ld)[:, :, first : first + width]
    rows = out.view(m, n)
    blocks = -(-m * n * system.planes * 4 // SUMS)
    for begin, end in pairwise(m * i // blocks for i in range(blocks + 1)):
        sums = out.new_empty((system.planes, end - begin, n), dtype=torch.int32)
        for p in range(system.planes):
            torch._int_mm(a[p, begin:end], b[p].t(), out=sums[p])
        combine(sums, rows[begin:end], added=added)


# ---- called by `tacit.kernels` -----------------------------------------------------------------


def matmul(a: Tensor, b: Tensor, out: Tensor, method: int) -> Tensor:
    """Fills `out` (..., m, n) with the products of (..., m, k) and (..., k, n), none of them empty.

    Batches have equal shapes; their strides may be zero. Methods are those of `kernels.matmul`: if
    the choice is free, a few rows or columns are multiplied directly.
    """
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if method == PLAIN or (method == CHOOSE and min(m, n) <= FEW_ROWS):
        return multiply_directly(a, b, out)
    a, b = (x.flatten(0, -4) if x.dim() > 4 else x for x in (a, b))
    ld = inner(k)
    left = encode(a, *_four(a), ld)
    right = encode(b, *_transposed(b), ld, right=True)
    multiply(left, right, out, (out.numel() // (m * n), m, n), ld)
    return out


def plan_matmul(sizes: tuple[int, int, int], bits: int, method: int) -> tuple[int, int]:
    """Returns the method for a prepared right operand, for products of m x k x n, and its bytes."""
    m, k, n = sizes
    if method == PLAIN or (method == CHOOSE and min(m, n) <= FEW_ROWS):
        return PLAIN, 0
    return ENCODED, SYSTEMS[bits].planes * n * inner(k)


def prepare_matmul(b: Tensor) -> Tensor:
    """Returns the residues of a right operand (k, n)."""
    return encode(b, *_transposed(b), inner(b.shape[0]), right=True).view(-1)


def matmul_prepared(a: Tensor, prepared: Tensor, out: Tensor) -> Tensor:
    """Fills `out` (m, n) with the product of (m, k) and a prepared operand; none is empty."""
    (m, k), n = a.shape, out.shape[1]
    ld = inner(k)
    multiply(encode(a, *_four(a), ld), prepared, out, (1, m, n), ld)
    return out


def _four(x: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the sizes and strides of x as (b1, b2, rows, columns)."""
    missing = 4 - x.dim()
    return (1,) * missing + x.shape, (0,) * missing + x.stride()


def _transposed(x: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the sizes and strides of x, transposed: (b1, b2, columns, rows)."""
    (*sizes, k, n), (*strides, sk, sn) = _four(x)
    return (*sizes, n, k), (*strides, sn, sk)
