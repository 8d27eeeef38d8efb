"""What the members of a run hold of one secret, put together where all are threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from ...fixedpoint import Numbers, Value
from ...fixedpoint.extended.fine_gradients import gradient_bits, is_fine
from ...fixedpoint.extended.moments import ExtendedValue
from ...fixedpoint.lazy import LazyValue
from ...kernels import unpack_bits
from ...protocols import Arith, Bool
from ...protocols.share import Parts


@dataclass(frozen=True)
class Holding:
    """The parts that one member holds of a value: integers that stand for x 2^bits, or planes.

    bits: those of a pending division included. fraction_bits: those that are left after it.
    """

    parts: Parts
    shape: torch.Size
    dtype: torch.dtype
    bits: int
    fraction_bits: int

    def copied(self) -> Holding:
        """Returns the same in memory of its own."""
        return replace(self, parts={i: part.clone() for i, part in self.parts.items()})


def holding(n: Numbers, value: Value) -> Holding | None:
    """Returns what this member holds of a value; None while nothing has computed it."""
    if isinstance(value, ExtendedValue):
        return _of_share(value.raw, value, value.fraction_bits) if value.has_raw else None
    if is_fine(value):
        whole = holding(n, value.raw)
        extra = gradient_bits(value.n)
        return whole and replace(
            whole, bits=whole.bits + extra, fraction_bits=whole.fraction_bits + extra
        )
    if isinstance(value, LazyValue):
        return holding(n, value.computed()) if value.is_computed else None
    return _of_share(value.share, value, n.bits_of(value.dtype))


def _of_share(share: object, value: Value, fraction_bits: int) -> Holding | None:
    if isinstance(share, Arith) and "shape" in share.__dict__:
        bits = fraction_bits + share.pending
        return Holding(dict(share.parts), share.shape, value.dtype, bits, fraction_bits)
    if isinstance(share, Bool) and "shape" in share.__dict__:
        return Holding(dict(share.parts), share.shape, value.dtype, 0, 0)
    return None


def opened(holdings: Sequence[Holding | None]) -> Tensor | None:
    """Returns the numbers of which all members hold parts: reals in float64, others in their dtype.

    Equal parts of several members count once. None if a member has not computed its part.
    """
    held = [one for one in holdings if one is not None]
    if len(held) < len(holdings):
        return None
    parts = {i: part for one in held for i, part in one.parts.items()}.values()
    dtype, shape = held[0].dtype, held[0].shape
    if dtype == torch.bool:
        planes = reduce(torch.bitwise_xor, parts)
        return unpack_bits(planes[0].cpu(), shape, torch.bool)
    total = sum_of(list(parts)).cpu()
    if dtype.is_floating_point:
        return total.to(torch.float64).mul_(2.0 ** -held[0].bits)
    return (total >> held[0].bits).to(dtype)


def sum_of(parts: Sequence[Tensor]) -> Tensor:
    """Returns the sum of parts, in new memory, which later ones are added to."""
    first, *rest = parts
    if not rest:
        return first
    total = first + rest[0]
    for part in rest[1:]:
        total += part
    return total
