"""Powers of two whose exponents are a known and a dealt part of a secret (M13).

2^-(m + v) is a product of a power of m and one of v. u = m or v has `bits` bits below its binary
point and WHOLE_BITS above it that count. All of those but the lowest `step` ones select an entry of
the dealt table; the rest of both multiply. All parties must compute with the same bits, see
`waves`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..ring.deterministic import power_of_half, to_ring
from .backend import gpu_for

WHOLE_BITS = 6  # integer bits of the exponents in a dealt table of powers


def table_entries(step: int) -> int:
    """Returns how many powers are dealt if 2^step exponents share one."""
    return 1 << (WHOLE_BITS - step)


def deal_powers(v: Tensor, pad: Tensor, *, bits: int, step: int, table_bits: int) -> Tensor:
    """Replaces the pad by the table of v less the pad, and returns it: (entries, *v.shape).

    Entry (j + place of v) is 2^(rest of v - j 2^step), with `table_bits`, for j = -1, 0, 1, ...
    """
    entries, width = table_entries(step), 1 << step
    last = min(entries - 1, table_bits // width + 3)
    if (gpu := gpu_for(v, pad)) and pad.is_contiguous():
        return gpu.deal_powers(v, pad, bits, step, table_bits, last)
    place, whole, fraction = _split(v, bits, step)
    power = power_of_half((1 << bits) - fraction, bits) * (2 << whole)
    table = torch.zeros_like(pad)
    for j in range(-1, last):
        row = ((place + j) & (entries - 1)).unsqueeze(0)
        table.scatter_(0, row, to_ring(power, table_bits - j * width, v).unsqueeze(0))
    return torch.sub(table, pad, out=pad)


def add_power(
    out: Tensor, m: Tensor, table: Tensor, *, bits: int, step: int, public_bits: int
) -> Tensor:
    """Adds a share of 2^-(m + v) to `out`, by a share of the table of v; returns it.

    The public factor, the power of m's rest, has `public_bits`.
    """
    if gpu := gpu_for(out, m, table):
        return gpu.add_power(out, m, table, bits, step, public_bits)
    place, whole, fraction = _split(m, bits, step)
    chosen = table.gather(0, place.unsqueeze(0)).squeeze(0)
    power = power_of_half(fraction, bits) / (1 << whole)
    out += to_ring(power, public_bits, out) * chosen
    return out


def _split(u: Tensor, bits: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """The bits above the binary point, modulo 2^WHOLE_BITS: all but the lowest, those; the rest."""
    whole = (u >> bits).to(torch.int64)
    place = (whole >> step) & (table_entries(step) - 1)
    return place, whole & ((1 << step) - 1), u & ((1 << bits) - 1)
