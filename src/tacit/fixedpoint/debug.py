"""Debug mode: what values are in clear, and whether they are within what a session can hold.

Only for the plain reference, whose shares have one part: the numbers themselves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import RangeError
from ..kernels import unpack_bits
from ..protocols import Arith
from .extended.moments import ExtendedValue
from .format import Format, largest_in, largest_of, range_remedy
from .value import Value


def clear(n: Format, x: Value) -> Tensor:
    """The numbers: reals as float64, what is pending divided, all others in their own dtype."""
    if x.is_bit:
        [planes] = x.bits.parts.values()
        return unpack_bits(planes[0].cpu(), x.shape, torch.bool)
    share, places = _integers(n, x)
    part = next(iter(share.parts.values())).cpu()
    if not x.is_real:
        return (part >> share.pending).to(x.dtype)
    return part.to(torch.float64) / 2.0 ** (places + share.pending)


def _integers(n: Format, x: Value) -> tuple[Arith, int]:
    """The share of numbers, and how many fraction bits it has when nothing is pending."""
    if isinstance(x, ExtendedValue):
        return x.raw, x.fraction_bits
    return x.arith, n.bits_of(x.dtype)


def within_limit(x: Arith) -> bool:
    """Whether a cleartext share is within its limit."""
    return largest_in(x) <= x.limit


def beyond(n: Format, numbers: Tensor, *, real: bool) -> bool:
    """Whether some of these numbers are too large for the session, or not numbers."""
    return not largest_of(numbers) <= 2.0 ** end_bits(n, real=real)


def end_bits(n: Format, *, real: bool) -> int:
    """The magnitudes of reals, or of integers, end at 2 to this."""
    return n.range_bits if real else n.range_bits + n.fraction_bits


def check(n: Format, x: Value, what: str) -> None:
    """Raises RangeError if a value is beyond the range, or its share beyond the share's limit."""
    if x.is_bit or x.dtype.is_complex or not x.shape.numel():
        return
    share, _ = _integers(n, x)
    if beyond(n, clear(n, x), real=x.is_real):
        raise out_of_range(n, what, real=x.is_real)
    if not within_limit(share):
        raise RangeError(f"{what} is larger than promised", remedy="promise more, or scale it")


def out_of_range(n: Format, what: str, *, real: bool = True) -> RangeError:
    """The error for a result, or whatever it is, that the session cannot hold."""
    kind = "" if real else " of integers"
    most = f"2^{end_bits(n, real=real)} in magnitude"
    return RangeError(f"{what} is beyond the range{kind}", limit=most, remedy=range_remedy(n))
