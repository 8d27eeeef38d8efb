"""Debug mode: the numbers behind values, and whether the session's format can hold them.

Only for the cleartext protocol, whose shares have one part: the numbers themselves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import RangeError
from ..kernels import unpack_bits
from ..protocols import Arith
from .extended.fine_gradients import full_share
from .extended.moments import ExtendedValue
from .format import Format, largest_in, largest_of, range_remedy
from .value import Value


def cleartext(n: Format, x: Value) -> Tensor:
    """Returns the numbers, pending divisions included: reals as float64, others in their dtype."""
    if x.is_bit:
        [planes] = x.bits.parts.values()
        return unpack_bits(planes[0].cpu(), x.shape, torch.bool)
    share, fraction_bits = _integers(n, x)
    part = next(iter(share.parts.values())).cpu()
    if not x.is_real:
        return (part >> share.pending).to(x.dtype)
    return part.to(torch.float64) / 2.0 ** (fraction_bits + share.pending)


def _integers(n: Format, x: Value) -> tuple[Arith, int]:
    """Returns the share of numbers, and its fraction bits after the pending division."""
    if isinstance(x, ExtendedValue):
        return x.raw, x.fraction_bits
    share, fraction_bits = full_share(n, x)
    assert isinstance(share, Arith)
    return share, fraction_bits


def within_limit(x: Arith) -> bool:
    """Returns whether a cleartext share is within its limit."""
    return largest_in(x) <= x.limit


def exceeds_range(n: Format, numbers: Tensor, *, real: bool) -> bool:
    """Returns whether some of these numbers are too large for the session, or NaN."""
    return not largest_of(numbers) <= 2.0 ** _magnitude_bits(n, real=real)


def _magnitude_bits(n: Format, *, real: bool) -> int:
    """Returns b such that reals, or integers, are below 2^b in magnitude."""
    return n.range_bits if real else n.range_bits + n.fraction_bits


def check_range(n: Format, x: Value, what: str) -> None:
    """Raises RangeError if a value exceeds the range, or its share the promised limit."""
    if x.is_bit or x.dtype.is_complex or not x.shape.numel():
        return
    share, _ = _integers(n, x)
    if exceeds_range(n, cleartext(n, x), real=x.is_real):
        raise out_of_range(n, what, real=x.is_real)
    if not within_limit(share):
        raise RangeError(f"{what} is larger than promised", remedy="promise more, or scale it")


def out_of_range(n: Format, what: str, *, real: bool = True) -> RangeError:
    """Returns the error for numbers, called `what`, that the session cannot hold."""
    kind = "" if real else " of integers"
    most = f"2^{_magnitude_bits(n, real=real)} in magnitude"
    return RangeError(f"{what} is beyond the range{kind}", limit=most, remedy=range_remedy(n))
