"""Sums of sines and cosines whose phases are a known and a dealt part of a secret (M12).

With harmonics h = 1, 3, 5, ... and a(x) = 2 pi h x / 2^period_bits,
    sin a(m + v) = sin a(m) cos a(v) + cos a(m) sin a(v).
The dealer of v deals the cosines and sines of a(v); who knows m multiplies its shares of them by
public factors. All parties must compute these with the same bits (`tacit.ring.deterministic`), on
whatever device: every sum and every product of floats is rounded by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ..ring.deterministic import odd_harmonics, stacked_harmonics, to_ring
from ..ring.ring import ring_of
from .backend import address, gpu_for, native_for

# Up to this many elements of all harmonics are computed at once: few calls of torch, more work.
AT_ONCE = 1 << 14


def deal_waves(
    v: Tensor, pad: Tensor, *, period_bits: int, fraction_bits: int, factor: Tensor | None = None
) -> Tensor:
    """Replaces the pad by cosines and sines of v, less the pad; returns it.

    pad: of shape (harmonics, 2, *v.shape), and 4 in place of 2 with a factor: then the products of
    cosines and sines with it follow them.
    """
    count = len(pad)
    if (gpu := gpu_for(v, pad)) and pad.is_contiguous():
        at_once = _is_at_once(v, count)
        return gpu.deal_waves(v, pad, factor, period_bits, fraction_bits, at_once=at_once)
    shift = ring_of(v).bits - period_bits
    rows_of_each = 2 if factor is None else 4
    if (native := native_for(v, pad)) and _is_filled(pad, v, (count, rows_of_each)):
        kernel = native.deal_waves64 if v.dtype == torch.int64 else native.deal_waves32
        v, by = v.contiguous(), None if factor is None else factor.expand(v.shape).contiguous()
        places = address(v), 0 if by is None else address(by), address(pad)
        kernel(*places, v.numel(), count, shift, fraction_bits, _is_at_once(v, count))
        return pad
    for block, waves in _waves(v, period_bits, count):
        rows, values = pad[block], to_ring(waves.flip(1), fraction_bits, v)  # cosines, sines
        rows[:, :2] = values - rows[:, :2]
        if factor is not None:
            rows[:, 2:] = values * factor - rows[:, 2:]
    return pad


def add_wave_sum(
    out: Tensor,
    m: Tensor,
    dealt: Tensor,
    *,
    period_bits: int,
    fraction_bits: int,
    sines: Sequence[float],
    cosines: Sequence[float],
) -> Tensor:
    """Adds a share of the sum of sines[i] sin a(m + v) + cosines[i] cos a(m + v) to `out`.

    dealt: a share of what `deal_waves` makes for v, without the pad; of shape (harmonics, 2,
    *m.shape). The public factors have `fraction_bits`.
    """
    sines, cosines = tuple(sines), tuple(cosines)
    if gpu := gpu_for(out, m, dealt):
        at_once = _is_at_once(m, len(sines))
        return gpu.add_wave_sum(
            out, m, dealt, sines, cosines, period_bits, fraction_bits, at_once=at_once
        )
    shift = ring_of(m).bits - period_bits
    native = native_for(out, m, dealt)
    form = len(sines), 2
    if native and _is_filled(out, m) and _has_form(dealt, m, form) and len(cosines) == len(sines):
        kernel = native.add_wave_sum64 if m.dtype == torch.int64 else native.add_wave_sum32
        m, dealt, at_once = m.contiguous(), dealt.contiguous(), _is_at_once(m, len(sines))
        places = address(m), address(dealt), address(out)
        kernel(*places, m.numel(), sines, cosines, shift, fraction_bits, at_once)
        return out
    of_sines = _column(sines, m.dim() + 1, m.device)
    of_cosines = _column(cosines, m.dim() + 1, m.device)
    for block, waves in _waves(m, period_bits, len(sines)):
        sine, cosine, c = waves[:, 0], waves[:, 1], of_sines[block]
        with_cosine, with_sine = sine * c, cosine * c
        if any(cosines):
            with_cosine += cosine * of_cosines[block]
            with_sine -= sine * of_cosines[block]
        for wave, share in zip((with_cosine, with_sine), dealt[block].unbind(1), strict=True):
            out += (to_ring(wave, fraction_bits, m) * share).sum(0, dtype=out.dtype)
    return out


def _has_form(x: Tensor, element: Tensor, before: tuple[int, ...] = ()) -> bool:
    """Whether x has these dimensions before those of `element`, and its dtype."""
    return x.shape == (*before, *element.shape) and x.dtype == element.dtype


def _is_filled(x: Tensor, element: Tensor, before: tuple[int, ...] = ()) -> bool:
    """Whether x has such a form, and its memory is in order: a kernel can write to it."""
    return x.is_contiguous() and _has_form(x, element, before)


def _is_at_once(x: Tensor, count: int) -> bool:
    """Whether each harmonic is computed from its own phase, and not from those before it."""
    return count * x.numel() <= AT_ONCE


def _waves(x: Tensor, period_bits: int, count: int) -> Iterator[tuple[slice, Tensor]]:
    """Yields sines and cosines of x, of shape (harmonics, 2, *x.shape): of all, or of each."""
    if _is_at_once(x, count):
        yield slice(0, count), stacked_harmonics(x, period_bits, count)
        return
    for i, pair in enumerate(odd_harmonics(x, period_bits, count)):
        yield slice(i, i + 1), torch.stack(pair).unsqueeze(0)


@cache
@_disable_current_modes()  # parties that are threads share it: no plan may write it
def _column(values: tuple[float, ...], dim: int, device: torch.device) -> Tensor:
    """The values along the first of `dim` dimensions."""
    return torch.tensor(values, dtype=torch.float64, device=device).view(-1, *[1] * (dim - 1))
