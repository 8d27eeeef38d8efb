"""Convolutions of words as they are, where a group has few channels: a sum over taps each.

Depthwise ones multiply each word a few times only: what residues would cost is more.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .cached import run
from .geometry import Geometry

BLOCK = 256  # outputs of a program


@triton.jit
def _position(tap, at, size, stride, padding, dilation, TRANSPOSED: tl.constexpr):
    """Where a tap reads along one dimension, and whether it does."""
    if TRANSPOSED:
        shifted = at + padding - tap * dilation
        place = shifted // stride
        return place, (shifted >= 0) & (shifted % stride == 0) & (place < size)
    else:  # noqa: RET505
        place = at * stride + tap * dilation - padding
        return place, (place >= 0) & (place < size)


@triton.jit(do_not_specialize=[*range(4, 8)], do_not_specialize_on_alignment=["x", "weight", "out"])
def _sum_taps(
    x,
    weight,
    out,
    geometry,
    sources,
    rows,
    groups,
    blocks,
    TRANSPOSED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out[image, group, row, position] = the sum over sources in the group, and taps."""
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
    """`out`, filled with the convolution, or the transposed one; nothing is empty."""
    groups, rows = geometry.groups, geometry.out_channels
    blocks = -(-geometry.positions // BLOCK)
    run(
        _sum_taps,
        (geometry.images * groups * rows * blocks, 1),
        (x.contiguous(), weight.contiguous(), out, geometry.table(x.device)),
        (geometry.source_channels, rows, groups, blocks),
        {"TRANSPOSED": geometry.is_transposed, "BLOCK": BLOCK},
    )
    return out
