"""Convolutions by residues, as products that gather their columns from images.

Images become residues (planes, group, image, position, channel), weights (planes, group, row, tap,
channel), with channels padded with zeros; rows are the output channels of a group. A step
multiplies bytes that are contiguous in both, the channels under a tap, so that nothing is unfolded
in memory (implicit GEMM). The gradient by the input is the transposed convolution: an input
position reads the outputs that read it. The gradient by the weight is in `weight_gradient`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ...ring import Window
from .direct import convolve_directly
from .gemm import ENCODED, PLAIN, block, stages, tile
from .geometry import Geometry
from .jit import launch
from .residue_system import SYSTEMS, factors, system_of
from .residues import combine, empty_sums, encode, reduced

SHORT = 4  # with so few channels in a group, words are multiplied directly
SMALL_STEP = 64  # bytes of a step that spans several taps


def channels(count: int) -> int:
    """Returns the bytes of a position's channels, padded: a power of two, or a multiple of 32."""
    if count <= 32:
        return max(4, triton.next_power_of_2(count))
    return -(-count // 32) * 32


def width(geometry: Geometry) -> tuple[int, int]:
    """Returns the bytes of a row of weights, and of a step over them."""
    padded = channels(geometry.source_channels)
    step = block(padded) if padded > 32 else SMALL_STEP
    return -(-geometry.taps * padded // step) * step, step


@triton.jit
def _across(
    position: tl.tensor,
    tap: tl.tensor,
    stride: tl.tensor,
    TRANSPOSED: tl.constexpr,
    STRIDED: tl.constexpr,
) -> tl.tensor:
    """Returns where a tap reads along one dimension; it may be outside, and is -1 for nothing.

    `tap` is the tap times the dilation. `position` is that of the result times the stride, minus
    the padding, or if TRANSPOSED that of the result plus the padding.
    """
    if TRANSPOSED:
        at = position - tap
        if STRIDED:
            at = tl.where((at >= 0) & (at % stride == 0), at // stride, -1)
    else:
        at = position + tap
    return at


@triton.jit(do_not_specialize=[*range(5, 15)])
def _convolve(
    w: tl.tensor,
    x: tl.tensor,
    out: tl.tensor,
    table: tl.tensor,
    geometry: tl.tensor,
    m: tl.tensor,
    pixels: tl.tensor,
    groups: tl.tensor,
    units: tl.tensor,
    tiles_n: tl.tensor,
    tiles: tl.tensor,
    ld: tl.tensor,
    padded: tl.tensor,
    first: tl.tensor,
    steps: tl.tensor,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SMALL: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    STRIDED: tl.constexpr,
    DEEP: tl.constexpr,
) -> None:
    """Writes reduced sums of `steps` from `first` on to out[p, image, group and row, position].

    Rows of weights have 32 `ld` bytes. Positions of x have SMALL bytes, or 32 `padded` if SMALL is
    0. Planes of `out` have 16 `units`. A step has BK bytes: BK / SMALL taps, or a part of one tap.
    """
    pid, p = tl.program_id(0), tl.program_id(1)
    group = pid // tiles
    i = (pid % tiles) // tiles_n * BM + tl.arange(0, BM)
    j = (pid % tiles) % tiles_n * BN + tl.arange(0, BN)
    to_d, to_h, to_w = tl.load(geometry), tl.load(geometry + 1), tl.load(geometry + 2)
    in_d, in_h, in_w = tl.load(geometry + 3), tl.load(geometry + 4), tl.load(geometry + 5)
    taps_h, taps_w = tl.load(geometry + 7), tl.load(geometry + 8)
    s_d, s_h, s_w = tl.load(geometry + 9), tl.load(geometry + 10), tl.load(geometry + 11)
    p_d, p_h, p_w = tl.load(geometry + 12), tl.load(geometry + 13), tl.load(geometry + 14)
    d_d, d_h, d_w = tl.load(geometry + 15), tl.load(geometry + 16), tl.load(geometry + 17)
    positions = to_d * to_h * to_w
    image, at = j // positions, j % positions
    if TRANSPOSED:
        y, z = at // to_w % to_h + p_h, at % to_w + p_w
        u = at // to_w // to_h + p_d
    else:
        y, z = at // to_w % to_h * s_h - p_h, at % to_w * s_w - p_w
        u = at // to_w // to_h * s_d - p_d
    size = SMALL if SMALL > 0 else padded * 32
    volume = (in_d * in_h * in_w).to(tl.int64)
    images = pixels // positions
    from_x = x + ((p.to(tl.int64) * groups + group) * images + image) * volume * size
    row = (p.to(tl.int64) * groups + group) * m + tl.minimum(i, m - 1)
    from_w = w + (row * (ld * 32))[:, None] + (first * BK + tl.arange(0, BK))[None, :]
    sums = tl.zeros((BM, BN), dtype=tl.int32)
    valid = j < pixels
    if SMALL > 0:
        all_taps = tl.load(geometry + 6) * taps_h * taps_w
        k = first * BK + tl.arange(0, BK)
        for _ in range(steps):
            tap, c = (k // SMALL)[:, None], (k % SMALL)[:, None]
            h = _across(y[None, :], tap // taps_w % taps_h * d_h, s_h, TRANSPOSED, STRIDED)
            v = _across(z[None, :], tap % taps_w * d_w, s_w, TRANSPOSED, STRIDED)
            read = valid[None, :] & (tap < all_taps)
            read = read & (h >= 0) & (h < in_h) & (v >= 0) & (v < in_w)
            index = h * in_w + v
            if DEEP:
                d = _across(u[None, :], tap // taps_w // taps_h * d_d, s_d, TRANSPOSED, STRIDED)
                read = read & (d >= 0) & (d < in_d)
                index += d * (in_h * in_w)
            there = from_x[None, :] + (index.to(tl.int64) * SMALL + c)
            columns = tl.load(there, mask=read, other=0)
            sums = tl.dot(tl.load(from_w), columns, sums, out_dtype=tl.int32)
            from_w += BK
            k += BK
    else:
        per_tap = size // BK
        tap, step = first // per_tap, first % per_tap
        t_w, t_h, t_d = tap % taps_w, tap // taps_w % taps_h, tap // taps_w // taps_h
        c = tl.arange(0, BK)[:, None]
        for _ in range(steps):
            h = _across(y, t_h * d_h, s_h, TRANSPOSED, STRIDED)
            v = _across(z, t_w * d_w, s_w, TRANSPOSED, STRIDED)
            read = valid & (h >= 0) & (h < in_h) & (v >= 0) & (v < in_w)
            index = h * in_w + v
            if DEEP:
                d = _across(u, t_d * d_d, s_d, TRANSPOSED, STRIDED)
                read = read & (d >= 0) & (d < in_d)
                index += d * (in_h * in_w)
            there = from_x + (index.to(tl.int64) * size + step * BK)
            columns = tl.load(there[None, :] + c, mask=read[None, :], other=0)
            sums = tl.dot(tl.load(from_w), columns, sums, out_dtype=tl.int32)
            from_w += BK
            step += 1
            is_last = step == per_tap
            step = tl.where(is_last, 0, step)
            t_w += is_last.to(tl.int32)
            t_h += (t_w == taps_w).to(tl.int32)
            t_w = tl.where(t_w == taps_w, 0, t_w)
            t_d += (t_h == taps_h).to(tl.int32)
            t_h = tl.where(t_h == taps_h, 0, t_h)
    start = p.to(tl.int64) * units * 16
    rows_at = (image.to(tl.int64) * groups + group) * m * positions + at
    place = rows_at[None, :] + i.to(tl.int64)[:, None] * positions
    inside = (i < m)[:, None] & valid[None, :]
    tl.store(out + start + place, reduced(sums, table, p), mask=inside)


def encode_images(x: Tensor, geometry: Geometry) -> Tensor:
    """Returns the residues (planes, group, image, position, channel) of images, channels first."""
    flat = x.flatten(2)
    count = geometry.source_channels
    sizes = (geometry.groups, flat.shape[0], flat.shape[2], count)
    image, channel, position = flat.stride()
    strides = (count * channel, image, position, channel)
    return encode(flat, sizes, strides, channels(count))


def encode_weight(weight: Tensor, geometry: Geometry) -> Tensor:
    """Returns the residues (planes, group, row, tap, channel) of a weight (out, in, *taps)."""
    weight, taps = weight.contiguous(), geometry.taps
    groups, inputs, rows = geometry.groups, geometry.source_channels, geometry.out_channels
    padded, (row, _) = channels(inputs), width(geometry)
    if geometry.is_transposed:
        strides = (inputs * rows * taps, taps, 1, rows * taps)
    else:
        strides = (rows * inputs * taps, inputs * taps, 1, taps)
    sizes = (groups, rows, taps, inputs)
    return encode(weight, sizes, strides, padded, rows_out=row // padded, right=True)


def convolve(x: Tensor, residues: Tensor, out: Tensor, geometry: Geometry) -> Tensor:
    """Fills `out` with the convolution of images and the residues of a weight; none is empty."""
    system, images = system_of(out), encode_images(x, geometry)
    m, pixels, groups = geometry.out_channels, geometry.images * geometry.positions, geometry.groups
    padded, (row, bk) = channels(geometry.source_channels), width(geometry)
    bm, bn, warps = tile(m, pixels, groups * system.planes)
    tiles_n = -(-pixels // bn)
    tiles = -(-m // bm) * tiles_n
    sums = empty_sums(out)
    sizes = (m, pixels, groups, sums.shape[1] // 16)
    for first in range(0, row, system.depth // bk * bk):
        steps = min(row - first, system.depth) // bk
        launch(
            _convolve,
            (groups * tiles, system.planes),
            (residues, images, sums, factors(system.bits, x.device), geometry.table(x.device)),
            (*sizes, tiles_n, tiles, row // 32, padded // 32, first // bk, steps),
            {
                "BM": bm,
                "BN": bn,
                "BK": bk,
                "SMALL": padded if padded <= 32 else 0,
                "TRANSPOSED": geometry.is_transposed,
                "STRIDED": geometry.is_strided,
                "DEEP": geometry.is_deep,
            },
            num_warps=warps,
            num_stages=stages(bm, bn, bk),
        )
        combine(sums, out, added=first > 0)
    return out


# ---- called by `tacit.kernels` -----------------------------------------------------------------


def is_direct(geometry: Geometry, method: int) -> bool:
    """Whether words are multiplied directly, without residues."""
    short = geometry.groups > 1 and geometry.source_channels <= SHORT
    return method == PLAIN or (method == 0 and short)


def conv(x: Tensor, weight: Tensor, out: Tensor, window: Window, method: int) -> Tensor:
    """Fills `out` with the convolution; nothing is empty. Methods are those of `kernels.conv`."""
    return _any_conv(
        x, weight, out, Geometry.make(x.shape, weight.shape, out.shape, window), method
    )


def conv_grad_input(
    grad: Tensor, weight: Tensor, out: Tensor, window: Window, method: int
) -> Tensor:
    """Fills `out`, of the input's shape, with the gradient by the input; nothing is empty."""
    geometry = Geometry.make(out.shape, weight.shape, grad.shape, window).transposed()
    return _any_conv(grad, weight, out, geometry, method)


def _any_conv(x: Tensor, weight: Tensor, out: Tensor, geometry: Geometry, method: int) -> Tensor:
    if is_direct(geometry, method):
        return convolve_directly(x, weight, out, geometry)
    return convolve(x, encode_weight(weight, geometry), out, geometry)


def plan_conv(geometry: Geometry, bits: int, method: int) -> tuple[int, int]:
    """Returns the method for a prepared weight, and its bytes."""
    if is_direct(geometry, method):
        return PLAIN, 0
    rows = geometry.groups * geometry.out_channels
    return ENCODED, SYSTEMS[bits].planes * rows * width(geometry)[0]


def prepare_conv(weight: Tensor, window: Window) -> Tensor:
    """Returns the residues of a weight for convolutions with this window, whatever their inputs."""
    sizes = (1, weight.shape[1] * window.groups, *weight.shape[2:])
    out = (1, weight.shape[0], *weight.shape[2:])  # only channels and taps matter here
    return encode_weight(weight, Geometry.make(sizes, weight.shape, out, window)).view(-1)


def conv_prepared(
    x: Tensor, prepared: Tensor, out: Tensor, window: Window, shape: tuple[int, ...]
) -> Tensor:
    """Fills `out` with the convolution with a prepared weight of this shape; nothing is empty."""
    return convolve(x, prepared, out, Geometry.make(x.shape, shape, out.shape, window))
