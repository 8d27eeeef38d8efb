"""Sums and comparisons of integers that are shared as bits: circuits on their 64 planes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .bit_planes import BITS


def moved_up(planes: Tensor, places: int) -> Tensor:
    """Returns the bits moved up by some places, with zeros below."""
    kept = _rows(torch.arange(BITS) >= places, planes)
    return torch.logical_and(planes.roll(places, 0), kept)


def added(a: Tensor, b: Tensor, *, carry: bool = False) -> Tensor:
    """Returns a + b, and 1 more with `carry`, modulo 2^64. 7 rounds of AND.

    Kogge and Stone, A parallel algorithm for the efficient solution of a general class of
    recurrence equations, 1973: a bit generates a carry, or lets one from below pass.
    """
    generates, passes = torch.logical_and(a, b), torch.logical_xor(a, b)
    half = passes
    if carry:
        lowest = _rows(torch.arange(BITS) == 0, half)
        generates = torch.logical_xor(generates, torch.logical_and(lowest, passes))
    for step in (1, 2, 4, 8, 16, 32):
        below = torch.stack([moved_up(generates, step), moved_up(passes, step)])
        from_below, passes = torch.logical_and(below, passes).unbind()
        generates = torch.logical_xor(generates, from_below)
    total = torch.logical_xor(half, moved_up(generates, 1))
    return torch.logical_xor(total, lowest) if carry else total


def summed(terms: Sequence[Tensor]) -> Tensor:
    """Returns the sum of many integers: three become two of the same sum, in one round of AND."""
    while len(terms) > 2:
        thirds = len(terms) // 3
        a, b, c = torch.stack([*terms[: 3 * thirds]]).unflatten(0, (3, thirds)).unbind()
        other = torch.logical_xor(a, b)
        carries = torch.logical_and(other, torch.logical_xor(a, c)).logical_xor(a)
        doubled = [moved_up(one, 1) for one in carries.unbind()]
        terms = [*torch.logical_xor(other, c).unbind(), *doubled, *terms[3 * thirds :]]
    return terms[0] if len(terms) == 1 else added(*terms)


def equal(a: Tensor, b: Tensor) -> Tensor:
    """Returns whether a = b. 6 rounds of AND."""
    same = torch.logical_xor(a, b).logical_not()
    while len(same) > 1:
        same = torch.logical_and(*same.chunk(2))
    return same[0]


def less(a: Tensor, b: Tensor) -> Tensor:
    """Returns whether a < b, for integers in two's complement. 7 rounds of AND.

    Of two neighbours, the upper bit decides; if it is equal in both, the lower one does.
    """
    differs = torch.logical_xor(a, b)
    highest = _rows(torch.arange(BITS) == BITS - 1, differs)  # 1 here is negative
    smaller = torch.logical_and(differs, torch.logical_xor(b, highest))
    same = differs.logical_not()
    while len(same) > 1:
        lower = torch.stack([smaller[::2], same[::2]])
        from_below, same_pairs = torch.logical_and(lower, same[1::2]).unbind()
        smaller, same = torch.logical_xor(smaller[1::2], from_below), same_pairs
    return smaller[0]


def chosen(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Returns a where the condition, of one plane, is true, and b where it is not. 1 round."""
    return torch.logical_and(condition, torch.logical_xor(a, b)).logical_xor(b)


def as_integer(truth: Tensor) -> Tensor:
    """Returns truth values as the bits of 1 and 0."""
    lowest = torch.arange(BITS).view(BITS, *[1] * truth.dim()) == 0
    return torch.logical_and(truth, lowest)


def _rows(public: Tensor, planes: Tensor) -> Tensor:
    """Returns a public bit for each plane, in a shape that meets the planes."""
    return public.view(BITS, *[1] * (planes.dim() - 1))
