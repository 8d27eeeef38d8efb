"""Products of words as they are, where operands are read once: matrices of few rows."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .cached import run

COLUMNS = 64  # that a program sums, over steps of 32 / rows
DEPTH = 512  # of the inner dimension, for one program


@triton.jit(do_not_specialize=[*range(3, 18)], do_not_specialize_on_alignment=["a", "b", "out"])
def _few_rows(
    a,
    b,
    out,
    m,
    n,
    k,
    batch,
    a1,
    a2,
    am,
    ak,
    b1,
    b2,
    bk,
    bn,
    o,
    om,
    on,
    ROWS: tl.constexpr,
    BK: tl.constexpr,
    BN: tl.constexpr,
    DEPTH: tl.constexpr,
    ALONG: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """out[b, i, j] = sum of a[b, i, k] b[b, k, j] over DEPTH terms, or increased by it if SPLIT.

    ALONG is the dimension, 0 or 1, in which b is contiguous, or 2.
    """
    pid, blocks, high = tl.program_id(0).to(tl.int64), tl.cdiv(n, BN), tl.cdiv(m, ROWS)
    j = (pid % blocks) * BN + tl.arange(0, BN)
    i = (pid // blocks % high) * ROWS + tl.arange(0, ROWS)
    at = pid // blocks // high
    a += (at // batch) * a1 + (at % batch) * a2 + (i * am)[:, None]
    b += (at // batch) * b1 + (at % batch) * b2 + (j if ALONG == 1 else j * bn)[None, :]
    total = tl.zeros((ROWS, BN), dtype=out.dtype.element_ty)
    start = tl.program_id(1).to(tl.int64) * DEPTH
    for step in range(0, DEPTH, BK):
        t = start + step + tl.arange(0, BK)
        left = tl.load(a + (t * ak)[None, :], mask=(i < m)[:, None] & (t < k)[None, :], other=0)
        along = t if ALONG == 0 else t * bk
        right = tl.load(b + along[:, None], mask=(t < k)[:, None] & (j < n)[None, :], other=0)
        total += tl.sum(left[:, :, None] * right[None, :, :], 1)
    place = out + at * o + (i * om)[:, None] + (j * on)[None, :]
    inside = (i < m)[:, None] & (j < n)[None, :]
    if SPLIT:
        tl.atomic_add(place, total, mask=inside, sem="relaxed")
    else:
        tl.store(place, total, mask=inside)


def multiply_directly(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """`out` (..., m, n), filled with the products of (..., m, k) and (..., k, n), none empty."""
    turned = out
    if b.shape[-1] < a.shape[-2]:  # few columns: the transposed product has few rows
        a, b, turned = b.mT, a.mT, out.mT
    a, b = (x.flatten(0, -4) if x.dim() > 4 else x for x in (a, b))
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch, rows = out.numel() // (m * n), min(4, triton.next_power_of_2(m))
    strides = (*(0, 0, *a.stride())[-4:], *(0, 0, *b.stride())[-4:])
    blocks, parts = -(-n // COLUMNS), -(-k // DEPTH)
    run(
        _few_rows,
        (batch * -(-m // rows) * blocks, parts),
        (a, b, out.zero_() if parts > 1 else out),
        (m, n, k, a.shape[-3] if a.dim() > 2 else 1, *strides, m * n, *turned.stride()[-2:]),
        {
            "ROWS": rows,
            "BK": 32 // rows,
            "BN": COLUMNS,
            "DEPTH": DEPTH,
            "ALONG": 1 if b.stride(-1) == 1 else 0 if b.stride(-2) == 1 else 2,
            "SPLIT": parts > 1,
        },
    )
    return out
