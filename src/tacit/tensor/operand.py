"""Operands of rules: a secret `Value`, or something public. What many rules do with either."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from ..errors import PrecisionWarning, RangeError
from ..fixedpoint import Numbers, Operand, Value
from ..fixedpoint.encoding import first_position, in_words
from ..fixedpoint.symbolic import SymbolicNumber

Array = Value | Tensor  # an operand with a shape
Dims = Sequence[int] | int | None  # of a reduction; None for all


def number(x: Any) -> float | None:
    """Returns a public number as a float, or None if x is not one."""
    if isinstance(x, SymbolicNumber):
        return cast("float", x)  # it computes like one
    if isinstance(x, bool | int | float):
        return float(x)
    return float(x) if isinstance(x, Tensor) and x.dim() == 0 else None


def mapped(x: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Returns a secret or public tensor after a change of shape. Local."""
    return x.map(change) if isinstance(x, Value) else change(torch.as_tensor(x))


def require_indices(x: Tensor, size: int, what: str, *, ignored: int | None = None) -> None:
    """Raises RangeError unless all public indices are from 0 to size - 1, or `ignored`."""
    if not x.numel():
        return
    low, high = torch.aminmax(x)
    if low >= 0 and high < size:
        return
    wrong = (x < 0) | (x >= size)
    wrong = wrong if ignored is None else wrong & (x != ignored)
    if bool(wrong.any()):
        position = first_position(wrong)
        raise RangeError(
            f"{what}{in_words(position)} is outside of its range",
            limit=f"0 to {size - 1}",
            remedy="check the data, or the number of classes or rows",
            position=position,
            number="index",
        )


def _warn_of_small_factor(n: Numbers, factor: float) -> None:
    least = 0.5 * 2.0**-n.fraction_bits / abs(factor)
    warnings.warn(
        PrecisionWarning(
            f"the factor {factor:g} is below half a unit, 2^-{n.fraction_bits + 1}: numbers below "
            f"{least:.3g} become 0; scale first, or use more fraction_bits"
        ),
        stacklevel=2,
    )


def times(n: Numbers, a: Operand, b: Operand) -> Any:
    """Returns the product of two operands, of which both may be public.

    Warns of a single factor that takes numbers below 1 to less than half a unit.
    """
    if isinstance(b, float) and 0 < abs(b) < 0.5 * 2.0**-n.fraction_bits:
        _warn_of_small_factor(n, b)
    return n.mul(a, b) if isinstance(a, Value) or isinstance(b, Value) else a * b
