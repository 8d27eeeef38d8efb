"""Batch norm by statistics that one party knows: it computes scale and shift before it shares them.

Otherwise the first normalisation would take an inverse square root of secrets (norm.fixed_norm).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .format import Format
from .norm import FixedNorm, extended_bits, keep_fixed_norm
from .transfer import Input
from .value import Value


class Statistics(NamedTuple):
    """Weight, bias, mean and variance of a batch norm; only their owner has the numbers."""

    weight: Tensor | None
    bias: Tensor | None
    mean: Tensor
    variance: Tensor
    eps: float


def norm_inputs(n: Format, known: Statistics, *, mine: bool) -> list[Input]:
    """Returns inverse deviation, scale and shift as inputs to share, in that order.

    A variance, with eps, counts as 2^-eps_bits at least. Numbers beyond the range saturate; of the
    shift only its residue in the ring counts, as in `apply_norm`.
    """
    shape, dtype, fine = known.variance.shape, known.variance.dtype, extended_bits(n)
    bits = [n.fraction_bits + fine, n.fraction_bits + fine, n.fraction_bits]
    values: Sequence[Tensor | None] = _numbers(n, known, fine) if mine else (None, None, None)
    return [Input(shape, dtype, x, b) for x, b in zip(values, bits, strict=True)]


@torch.no_grad()
def _numbers(n: Format, known: Statistics, fine: int) -> list[Tensor]:
    """In float64. The shift is that of the rounded scale: the mean of x becomes the bias."""
    weight, bias, mean, variance = (
        None if x is None else x.detach().to(torch.float64) for x in known[:4]
    )
    assert mean is not None
    assert variance is not None
    most, unit = 2.0 ** (n.range_bits - fine) - 1, 2.0 ** -(n.fraction_bits + fine)
    inverse = (variance + known.eps).clamp(min=2.0**-n.eps_bits).rsqrt()
    scale = inverse if weight is None else inverse * weight
    inverse, scale = ((x.clamp(-most, most) / unit).round() * unit for x in (inverse, scale))
    shift = -mean * scale if bias is None else bias - mean * scale
    turns = (shift / 2.0 ** (n.ring.bits - n.fraction_bits)).round()
    return [inverse, scale, shift - turns * 2.0 ** (n.ring.bits - n.fraction_bits)]


def keep_shared_norm(
    made: Sequence[Value],
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    eps: float,
) -> None:
    """Keeps what `norm_inputs` became as secrets for `fixed_norm`, as long as its sources stay."""
    keep_fixed_norm(FixedNorm(*made), weight, bias, mean, variance, eps)
