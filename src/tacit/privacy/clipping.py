"""Sums of rows whose norms are bounded inside of the computation.

NOTE [clipped norms]: a row is multiplied by a factor of at most C / norm. Norm and quotient are
approximated: the norm to a relative 2^-15 and two units, the inverse to a relative 2^-15 and a
unit. So the factor aims at a bound that is 2^-12 and four units smaller than C, and is rounded down
by as many units as the inverse may be off. The exact product of row and factor is then within C;
its rounding to units moves each of d numbers by at most one unit, and the norm by sqrt(d) units
(d for the sum of magnitudes). `norm_bound` is what remains. Rows must be within the range of the
session; numbers above `largest_entry` are cut off first, so that the norm is within its own.
"""

from __future__ import annotations

import math

from torch import Tensor

from ..errors import ConfigError
from ..fixedpoint import Numbers

RELATIVE = 2.0**-12


def unit_of(n: Numbers) -> float:
    """Returns the distance between two neighbouring numbers of a session."""
    return float(2.0**-n.fraction_bits)


def norm_bound(n: Numbers, bound: float, size: int, order: int) -> float:
    """Returns a norm that no clipped row of `size` numbers exceeds, rounding included."""
    unit = unit_of(n)
    if size == 1:
        return math.ceil(bound / unit) * unit
    return bound + unit * (size if order == 1 else math.sqrt(size))


def largest_entry(n: Numbers, size: int, order: int) -> float:
    """Returns what numbers of a row are cut off at, so that its norm can be computed."""
    bits = n.ring.bits // 2 - 3 - n.fraction_bits
    return 2.0**bits / (size if order == 1 else math.sqrt(size))


def clip_factors(n: Numbers, rows: Tensor, bound: float, order: int) -> Tensor:
    """Returns a factor of at most 1 for each row, (rows, 1), which makes its norm `bound` or less.

    See NOTE [clipped norms]. Nothing is revealed.
    """
    unit = unit_of(n)
    aim = bound * (1 - RELATIVE) - 4 * unit
    if aim <= 8 * unit:
        raise ConfigError(
            f"a bound of {bound:g} for the norm of a row",
            limit=f"at least {13 * unit:g} with {n.fraction_bits} fraction bits",
        )
    norms = rows.norm(dim=1, keepdim=True) if order == 2 else rows.abs().sum(1, keepdim=True)
    slack = (2 * max(bound, 1.0) + 1) * unit
    return (aim / norms.clamp_min(aim) - slack).clamp_min(0)


def clipped_rows(x: Tensor, bound: float, *, order: int = 2, kept: Tensor | None = None) -> Tensor:
    """Returns the rows of x, flattened, each scaled to a norm of at most `bound`.

    kept: truth values, one for each row; rows without become 0.
    order: 2 for Euclidean norms, 1 for sums of magnitudes. A row is all that belongs to one person.
    The bound holds up to `norm_bound`. Shapes are public, nothing else.
    """
    if not 0 < bound < math.inf:
        raise ConfigError(f"{bound=}", limit="a number above 0")
    if x.dim() == 0:
        raise ConfigError("a tensor without rows", limit="one row for each person is clipped")
    n: Numbers = x.numbers  # type: ignore[attr-defined]
    rows = x.reshape(len(x), -1)
    shown = 1.0 if kept is None else kept.to(x.dtype).unsqueeze(1)
    if rows.shape[1] == 1:
        return rows.clamp(-bound, bound) * shown
    largest = largest_entry(n, rows.shape[1], order)
    if bound > largest:
        raise ConfigError(
            f"a bound of {bound:g} for rows of {rows.shape[1]} numbers",
            limit=f"at most {largest:g} in this session",
            remedy="divide the rows and the bound by a public number",
        )
    rows = rows.clamp(-largest, largest)
    return rows * (clip_factors(n, rows, bound, order) * shown)


def clipped_sum(x: Tensor, bound: float, *, order: int = 2) -> Tensor:
    """Returns the sum of the rows of x, each scaled to a norm of at most `bound` before."""
    return clipped_rows(x, bound, order=order).sum(0).reshape(x.shape[1:])
