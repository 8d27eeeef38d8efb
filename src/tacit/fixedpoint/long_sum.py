"""Sums of many terms whose mean stays in the range while the sum itself may leave the ring.

Terms are taken to be below 2^MEAN_BITS on average. Where the sum of so many of them does not fit
before its pending division, partial sums are divided first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..protocols import Arith
from .format import Format

MEAN_BITS = {64: 12, 32: 6}  # by the bits of the ring


def spare_terms(n: Format, fraction_bits: int) -> int:
    """Returns b such that a sum of 2^b terms with `fraction_bits`, pending ones included, fits."""
    largest = min(MEAN_BITS[n.ring.bits], n.range_bits)
    return max(n.ring.bits - 2 - fraction_bits - largest, 0)


def long_sum(
    n: Format, x: Arith, dims: Sequence[int], *, fraction_bits: int, keepdim: bool
) -> Arith:
    """Returns the sum over dimensions, for terms that have `fraction_bits` after their division.

    Local, or 1 round if there are so many terms that their division cannot stay pending.
    """
    count = prod(x.shape[dim] for dim in dims)
    size = 1 << spare_terms(n, fraction_bits + x.pending)
    if not x.pending or count <= size:
        return x.sum(*dims, keepdim=keepdim)
    rest = [dim for dim in range(len(x.shape)) if dim not in dims]
    sizes = [x.shape[dim] for dim in rest]
    terms = x.permute(*rest, *dims).reshape(*sizes, count).pad((0, -count % size))
    partial = terms.reshape(*sizes, -1, size).sum(-1).promise(1 << (n.ring.bits - 2))
    total = n.protocol.settled(partial).sum(-1)
    kept = [1 if dim in dims else length for dim, length in enumerate(x.shape)]
    return total.reshape(*kept) if keepdim else total
