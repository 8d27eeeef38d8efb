"""Warnings of gradients that are too small for fixed point, without looking at secrets.

The first gradient of a backward pass is public: 1/N for the mean over N elements. If it is only a
few units, what earlier layers get of it rounds to zero. Debug mode, which sees all numbers, counts
the gradients that do.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from ..errors import PrecisionWarning
from ..fixedpoint import Numbers
from ..fixedpoint.extended.fine_gradients import FineGradient, Seed, gradient_bits
from ..fixedpoint.format import largest_of
from .table import short_name

FEWEST_UNITS = 16  # of the first gradient; with fewer, little is left of the next ones
REMEDY = (
    "multiply the loss by a public power of two, as torch.amp.GradScaler does, take a sum in "
    "place of a mean, or use more fraction_bits"
)


def warn_of_first_gradient(n: Numbers, seeds: Sequence[Tensor]) -> None:
    """Warns if the public gradients from which a backward pass starts are only a few units."""
    bits = n.fraction_bits + gradient_bits(n)
    largest = max(map(largest_of, seeds))
    if 0 < largest * 2.0**bits < FEWEST_UNITS:
        _warn(
            f"the gradient of the loss by its elements starts as {largest:.2g}, and gradients have "
            f"{bits} fraction bits: those of earlier layers may round to zero; {REMEDY}"
        )


def warn_of_lost_gradients(
    n: Numbers, func: OpOverload, operands: Sequence[Any], wanted: Sequence[Any]
) -> None:
    """In debug mode: warns if most of the gradients that an operation gives round to zero."""
    if not any(isinstance(x, FineGradient | Seed) for x in operands):
        return
    bits = n.fraction_bits + gradient_bits(n)
    for grad in wanted:
        if isinstance(grad, Tensor) and grad.is_floating_point():
            some, lost = grad != 0, (grad != 0) & (grad.abs() < 2.0 ** -(bits + 1))
            if 2 * int(lost.sum()) > int(some.sum()):
                _warn(
                    f"{int(lost.sum())} of {grad.numel()} gradients of {short_name(func)}, of "
                    f"shape {list(grad.shape)}, are below half a unit, 2^-{bits + 1}, and round to "
                    f"zero; {REMEDY}"
                )


def _warn(text: str) -> None:
    warnings.warn(PrecisionWarning(text), stacklevel=3)
