"""The gradient of a convolution by its weight: a product over all positions of all images.

Residues of the output's gradient are (planes, group, row, position), those of the unfolded input
(planes, group, channel and tap, position). The input is unfolded for some positions at a time,
which bounds memory (`UNFOLDED`) and the length of exact sums (the system's depth).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...ring import Window
from .gemm import inner, multiply_part
from .geometry import Geometry, three
from .jit import launch
from .residue_system import system_of, weights
from .residues import write_residues

UNFOLDED = 1 << 29  # bytes of residues of the unfolded input at a time
TILE = (8, 128)  # rows and positions that a program encodes


@triton.jit(do_not_specialize=[*range(4, 11)], do_not_specialize_on_alignment=["x"])
def _unfold(
    x: tl.tensor,
    out: tl.tensor,
    table: tl.tensor,
    geometry: tl.tensor,
    channels: tl.tensor,
    groups: tl.tensor,
    taps: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    across: tl.tensor,
    units: tl.tensor,
    PLANES: tl.constexpr,
    WIDE: tl.constexpr,
    BR: tl.constexpr,
    BC: tl.constexpr,
) -> None:
    """Writes out[p, group, channel and tap, position]: residues of what a tap reads at a position.

    Positions of all images are numbered consecutively; these are [begin, end), and zeros after them
    up to 32 `units`.
    """
    pid = tl.program_id(0)
    row = pid // across * BR + tl.arange(0, BR)
    column = pid % across * BC + tl.arange(0, BC)
    to_d, to_h, to_w = tl.load(geometry), tl.load(geometry + 1), tl.load(geometry + 2)
    in_d, in_h, in_w = tl.load(geometry + 3), tl.load(geometry + 4), tl.load(geometry + 5)
    k_h, k_w = tl.load(geometry + 7), tl.load(geometry + 8)
    s_d, s_h, s_w = tl.load(geometry + 9), tl.load(geometry + 10), tl.load(geometry + 11)
    p_d, p_h, p_w = tl.load(geometry + 12), tl.load(geometry + 13), tl.load(geometry + 14)
    d_d, d_h, d_w = tl.load(geometry + 15), tl.load(geometry + 16), tl.load(geometry + 17)
    position = begin + column
    image, at = position // (to_d * to_h * to_w), position % (to_d * to_h * to_w)
    rows = groups * channels * taps
    channel, tap = row // taps, row % taps
    d = (at // to_w // to_h * s_d - p_d)[None, :] + (tap // k_w // k_h * d_d)[:, None]
    h = (at // to_w % to_h * s_h - p_h)[None, :] + (tap // k_w % k_h * d_h)[:, None]
    v = (at % to_w * s_w - p_w)[None, :] + (tap % k_w * d_w)[:, None]
    read = (row < rows)[:, None] & (position < end)[None, :]
    read = read & (d >= 0) & (d < in_d) & (h >= 0) & (h < in_h) & (v >= 0) & (v < in_w)
    plane = image.to(tl.int64)[None, :] * (groups * channels) + channel[:, None]
    place = plane * (in_d * in_h * in_w) + ((d * in_h + h) * in_w + v)
    words = tl.load(x + place, mask=read, other=0)
    ld = units * 32
    to = out + row.to(tl.int64)[:, None] * ld + column[None, :]
    written = (row < rows)[:, None] & (column < ld)[None, :]
    write_residues(words, to, written, table, rows.to(tl.int64) * ld, PLANES, WIDE)


def unfold(
    x: Tensor, geometry: Geometry, part: tuple[int, int], ld: int, *, right: bool = False
) -> Tensor:
    """Returns the residues (planes, group, channel and tap, ld) of what positions [part) read."""
    system, (br, bc) = system_of(x), TILE
    rows = geometry.groups * geometry.source_channels * geometry.taps
    across = -(-ld // bc)
    out = x.new_empty((system.planes, rows * ld), dtype=torch.int8)
    launch(
        _unfold,
        (-(-rows // br) * across, 1),
        (x, out, weights(system.bits, right, x.device), geometry.table(x.device)),
        (geometry.source_channels, geometry.groups, geometry.taps, *part, across, ld // 32),
        {"PLANES": system.planes, "WIDE": system.bits == 64, "BR": br, "BC": bc},
    )
    return out


def conv_grad_weight(x: Tensor, grad: Tensor, out: Tensor, window: Window) -> Tensor:
    """Fills `out`, of the weight's shape, with the gradient by the weight; nothing is empty."""
    geometry = Geometry.make(x.shape, out.shape, grad.shape, window)
    own = three(grad.shape[2:], 1)  # the output's gradient is unfolded with a single tap
    ones, zeros = (1, 1, 1), (0, 0, 0)
    rows, groups, images = geometry.out_channels, geometry.groups, geometry.images
    alone = Geometry(images, groups, rows, 1, own, own, ones, ones, zeros, ones)
    x, grad = x.contiguous(), grad.contiguous()
    columns = geometry.source_channels * geometry.taps
    total, most = images * geometry.positions, _positions(out)
    for begin in range(0, total, most):
        count = min(most, total - begin)
        ld, part = inner(count), (begin, begin + count)
        a = unfold(grad, alone, part, ld)
        b = unfold(x, geometry, part, ld, right=True)
        multiply_part(a, b, out, (groups, rows, columns), ld, (0, ld), added=begin > 0)
    return out


def _positions(out: Tensor) -> int:
    """Returns how many positions are unfolded at a time."""
    system = system_of(out)
    rows = out.numel() // out.shape[0] * system.planes
    return min(system.depth, max(128, UNFOLDED // rows // 128 * 128))
