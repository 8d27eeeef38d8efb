"""Products and convolutions of words as they are, without residues.

They win where each word is multiplied only a few times, so that encoding it as residues would cost
more: matrices of few rows or columns, and convolutions with few channels in a group (depthwise
ones). Sums wrap, which is arithmetic mod 2^k, so that no bound on their length is needed.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .geometry import Geometry
from .jit import launch

COLUMNS = 64  # columns of a program, which takes 32 / rows terms in a step
DEPTH = 512  # terms of the inner dimension that a program sums


@triton.jit(do_not_specialize=[*range(3, 18)], do_not_specialize_on_alignment=["a", "b", "out"])
def _few_rows(
    a: tl.tensor,
    b: tl.tensor,
    out: tl.tensor,
    m: tl.tensor,
    n: tl.tensor,
    k: tl.tensor,
    batch: tl.tensor,
    a1: tl.tensor,
    a2: tl.tensor,
    am: tl.tensor,
    ak: tl.tensor,
    b1: tl.tensor,
    b2: tl.tensor,
    bk: tl.tensor,
    bn: tl.tensor,
    o: tl.tensor,
    om: tl.tensor,
    on: tl.tensor,
    ROWS: tl.constexpr,
    BK: tl.constexpr,
    BN: tl.constexpr,
    DEPTH: tl.constexpr,
    ALONG: tl.constexpr,
    SPLIT: tl.constexpr,
) -> None:
    """out[b, i, j] = the sum of a[b, i, k] b[b, k, j] over DEPTH terms, atomically added if SPLIT.

    ALONG is the dimension, 0 or 1, in which b is contiguous, or 2 if it is in neither. Integer sums
    are the same in any order, so that atomic additions are deterministic.
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
    """Fills `out` (..., m, n) with the products of (..., m, k) and (..., k, n); none is empty."""
    result = out
    if b.shape[-1] < a.shape[-2]:  # few columns: the transposed product has few rows
        a, b, result = b.mT, a.mT, out.mT
    a, b = (x.flatten(0, -4) if x.dim() > 4 else x for x in (a, b))
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch, rows = out.numel() // (m * n), min(4, triton.next_power_of_2(m))
    strides = (*(0, 0, *a.stride())[-4:], *(0, 0, *b.stride())[-4:])
    blocks, parts = -(-n // COLUMNS), -(-k // DEPTH)
    launch(
        _few_rows,
        (batch * -(-m // rows) * blocks, parts),
        (a, b, out.zero_() if parts > 1 else out),
        (m, n, k, a.shape[-3] if a.dim() > 2 else 1, *strides, m * n, *result.stride()[-2:]),
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


BLOCK = 256  # outputs of a program


@triton.jit
def _position(
    tap: tl.tensor,
    at: tl.tensor,
    size: tl.tensor,
    stride: tl.tensor,
    padding: tl.tensor,
    dilation: tl.tensor,
    TRANSPOSED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Returns where a tap reads along one dimension, and whether that is inside."""
    if TRANSPOSED:
        shifted = at + padding - tap * dilation
        place = shifted // stride
        return place, (shifted >= 0) & (shifted % stride == 0) & (place < size)
    else:  # noqa: RET505
        place = at * stride + tap * dilation - padding
        return place, (place >= 0) & (place < size)


@triton.jit(do_not_specialize=[*range(4, 8)], do_not_specialize_on_alignment=["x", "weight", "out"])
def _sum_taps(
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    geometry: tl.tensor,
    sources: tl.tensor,
    rows: tl.tensor,
    groups: tl.tensor,
    blocks: tl.tensor,
    TRANSPOSED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """out[image, group, row, position] = the sum over source channels of the group, and taps."""
    pid = tl.program_id(0)
    at = (pid % blocks) * BLOCK + tl.arange(0, BLOCK)
    channel = (pid // blocks).to(tl.int64)  # (image, group, row)
    row, group, image = channel % rows, channel // rows % groups, channel // rows // groups
    to_d, to_h, to_w = tl.load(geometry), tl.load(geometry + 1), tl.load(geometry + 2)
    in_d, in_h, in_w = tl.load(geometry + 3), tl.load(geometry + 4), tl.load(geometry + 5)
    k_d, k_h, k_w = tl.load(geometry + 6), tl.load(geometry + 7), tl.load(geometry + 8)
    s_d, s_h, s_w = tl.load(geometry + 9), tl.load(geometry + 10), tl.load(geometry + 11)
    p_d, p_h, p_w = tl.load(geometry + 12), tl.load(geometry + 13), tl.load(geometry + 14)
    d_d, d_h, d_w = tl.load(geometry + 15), tl.load(geometry + 16), tl.load(geometry + 17)
    inside = at < to_d * to_h * to_w
    u, y, z = at // to_w // to_h, at // to_w % to_h, at % to_w
    taps, volume = k_d * k_h * k_w, (in_d * in_h * in_w).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=out.dtype.element_ty)
    for source in range(sources):
        from_x = x + ((image * groups + group) * sources + source) * volume
        if TRANSPOSED:
            from_w = weight + ((group * sources + source) * rows + row) * taps
        else:
            from_w = weight + ((group * rows + row) * sources + source) * taps
        for tap in range(taps):
            t_w, t_h, t_d = tap % k_w, tap // k_w % k_h, tap // k_w // k_h
            d, in_0 = _position(t_d, u, in_d, s_d, p_d, d_d, TRANSPOSED)
            h, in_1 = _position(t_h, y, in_h, s_h, p_h, d_h, TRANSPOSED)
            v, in_2 = _position(t_w, z, in_w, s_w, p_w, d_w, TRANSPOSED)
            place, read = (d * in_h + h) * in_w + v, inside & in_0 & in_1 & in_2
            total += tl.load(from_w + tap) * tl.load(from_x + place, mask=read, other=0)
    to = out + channel * (to_d * to_h * to_w) + at
    tl.store(to, total, mask=inside)


def convolve_directly(x: Tensor, weight: Tensor, out: Tensor, geometry: Geometry) -> Tensor:
    """Fills `out` with the convolution, or the transposed one; nothing is empty."""
    groups, rows = geometry.groups, geometry.out_channels
    blocks = -(-geometry.positions // BLOCK)
    launch(
        _sum_taps,
        (geometry.images * groups * rows * blocks, 1),
        (x.contiguous(), weight.contiguous(), out, geometry.table(x.device)),
        (geometry.source_channels, rows, groups, blocks),
        {"TRANSPOSED": geometry.is_transposed, "BLOCK": BLOCK},
    )
    return out
