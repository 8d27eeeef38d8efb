"""Debug mode: what values are in clear, and whether they are within what a session can hold.

Only for the plain reference, whose shares have one part: the numbers themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import RangeError
from ..kernels import unpack_bits
from ..protocols import Arith
from .encoding import largest_of
from .value import Value

if TYPE_CHECKING:
    from .numbers import Numbers


def clear(n: Numbers, x: Value) -> Tensor:
    """The numbers: reals as float64, what is pending divided, all others in their own dtype."""
    if x.is_bit:
        [planes] = x.bits.parts.values()
        return unpack_bits(planes[0].cpu(), x.shape, torch.bool)
    share, places = _integers(n, x)
    part = next(iter(share.parts.values())).cpu()
    if not x.is_real:
        return (part >> share.pending).to(x.dtype)
    return part.to(torch.float64) / 2.0 ** (places + share.pending)


def _integers(n: Numbers, x: Value) -> tuple[Arith, int]:
    """The share of numbers, and how many fraction bits it has when nothing is pending."""
    from .extended.moments import Fine

    return (x.raw, x.places) if isinstance(x, Fine) else (x.arith, n.bits_of(x.dtype))


def kept(x: Arith) -> bool:
    """Whether a share in clear is within its limit."""
    return _largest(x) <= x.limit


def _largest(x: Arith) -> int:
    [part] = x.parts.values()
    if not part.numel():
        return 0
    low, high = torch.aminmax(part)
    return max(-int(low), int(high))


def check_window(n: Numbers, x: Arith) -> None:
    """Raises RangeError if an operand of a comparison has more bits than it looks at."""
    bits = x.width - 1
    if _largest(x) >> x.pending >= 1 << bits:
        reach = f"2^{bits - n.fraction_bits} in magnitude with {n.fraction_bits} fraction bits"
        raise RangeError(f"what is compared is beyond {reach}: {way_out(n)}")


def beyond(n: Numbers, numbers: Tensor, *, real: bool) -> bool:
    """Whether some of these numbers are too large for the session, or not numbers."""
    return not largest_of(numbers) <= 2.0 ** end_bits(n, real=real)


def end_bits(n: Numbers, *, real: bool) -> int:
    """The magnitudes of reals, or of integers, end at 2 to this."""
    return n.range_bits if real else n.range_bits + n.fraction_bits


def check(n: Numbers, x: Value, what: str) -> None:
    """Raises RangeError if a value is beyond the range, or its share beyond the share's limit."""
    if x.is_bit or x.dtype.is_complex or not x.shape.numel():
        return
    share, _ = _integers(n, x)
    if beyond(n, clear(n, x), real=x.is_real):
        raise out_of_range(n, what, real=x.is_real)
    if not kept(share):
        raise RangeError(f"{what} is larger than promised: promise more, or scale it")


def out_of_range(n: Numbers, what: str, *, real: bool = True) -> RangeError:
    """The error for a result, or whatever it is, that the session cannot hold."""
    kind = "" if real else " of integers"
    bits = end_bits(n, real=real)
    return RangeError(f"{what} is beyond the range{kind}, 2^{bits} in magnitude: {way_out(n)}")


def way_out(n: Numbers) -> str:
    """What widens the range."""
    most = n.ring.bits - 3 - 2 * n.fraction_bits
    fewer = f"fewer fraction_bits than {n.fraction_bits}"
    more = f"a larger range_bits, up to {most}, or " if n.range_bits < most else ""
    return f"scale what grows, or give tacit.run {more}{fewer}"
