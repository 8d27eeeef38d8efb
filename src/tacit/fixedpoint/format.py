"""The fixed-point format of a session: which ring elements stand for which numbers.

A real number x is the integer round(x 2^f), where f is the number of fraction bits; an integer or
a truth value is itself. One unit is 2^-f. Functions of this package take a `Format` as their first
argument, `n`.
"""

from __future__ import annotations

import math
from typing import Any, overload

import torch
from torch import Tensor

from ..errors import RangeError
from ..protocols import Arith, Protocol
from ..ring import Ring

# A product of a secret and a public factor stays below 2^(k - 2 - HEADROOM) in a ring of k bits.
HEADROOM = 1
# A public factor has at least this many significant bits, even if that costs a round.
SIGNIFICANT = 16

# A public number of at least this magnitude counts as infinite. Programs build masks from -inf,
# from -1e9 and from the smallest float.
INFINITE = 2.0**28


class Format:
    """The numbers of a session: a protocol, the fraction bits and the range.

    range_bits: every real value has a magnitude below 2^range_bits. Comparisons of larger values
        give wrong results; sums and products stay right up to the end of the ring.
    debug: raises RangeError if a value leaves the range. Needs the cleartext protocol.
    trace: the object that records which tensors a replayed function reads and creates, or None.
    on_refusal: the function that answers `bool(secret)` and the like in a dry run; None refuses.
    """

    def __init__(
        self,
        protocol: Protocol,
        *,
        fraction_bits: int,
        range_bits: int | None = None,
        debug: bool = False,
    ) -> None:
        self.protocol, self.debug = protocol, debug
        self.trace: Any = None
        self.on_refusal: Any = None
        self.fraction_bits = fraction_bits
        self.range_bits = min(20, self.most_range_bits) if range_bits is None else range_bits

    @property
    def ring(self) -> Ring:
        """The ring of the shares."""
        return self.protocol.ring

    @property
    def device(self) -> torch.device:
        """The device of the shares. Public tensors are on the CPU."""
        return self.protocol.device

    @property
    def most_range_bits(self) -> int:
        """The largest range_bits for which a product of two reals fits the ring."""
        return self.ring.bits - 3 - 2 * self.fraction_bits

    def bits_of(self, dtype: torch.dtype) -> int:
        """Returns the fraction bits of a value of this dtype."""
        return self.fraction_bits if dtype.is_floating_point else 0


@overload
def encode(n: Format, value: Tensor, fraction_bits: int) -> Tensor: ...
@overload
def encode(n: Format, value: Tensor | float, fraction_bits: int) -> Tensor | int: ...
def encode(n: Format, value: Tensor | float, fraction_bits: int) -> Tensor | int:
    """Returns the ring elements of real numbers with `fraction_bits`, rounded to the nearest.

    A Python number gives a Python integer. Raises RangeError for numbers that the ring cannot hold.
    """
    if not isinstance(value, Tensor):
        _check_range(n, abs(value * 2.0**fraction_bits), fraction_bits)
        return (
            round(value * 2.0**fraction_bits)
            if isinstance(value, float)
            else (int(value) << fraction_bits)
        )
    if not value.dtype.is_floating_point:
        return value.to(n.ring.dtype) << fraction_bits
    scaled = value.detach().to(torch.float64) * 2.0**fraction_bits
    _check_range(n, largest_of(scaled), fraction_bits)
    return scaled.round_().to(n.ring.dtype)


def largest_of(value: Tensor) -> float:
    """Returns the largest magnitude; NaN if one element is, 0 for an empty tensor."""
    if not value.numel():
        return 0.0
    low, high = torch.aminmax(value)
    return max(-float(low), float(high))


def _check_range(n: Format, largest: float, fraction_bits: int) -> None:
    if not largest < 2.0 ** (n.ring.bits - 2):
        raise RangeError(
            f"a public value is beyond the range of {n.ring.bits} bits with {fraction_bits} "
            "fraction bits",
            remedy="scale it, or use fewer fraction bits",
        )


@overload
def finite(n: Format, value: Tensor) -> Tensor: ...
@overload
def finite(n: Format, value: Tensor | float) -> Tensor | float: ...
def finite(n: Format, value: Tensor | float) -> Tensor | float:
    """Returns public summands with infinities replaced by 2^(range_bits - 3).

    Sums of a few of them stay within the range.
    """
    if not isinstance(value, Tensor):
        end = 2.0 ** (n.range_bits - 3)
        return math.copysign(end, value) if abs(value) >= INFINITE else value
    if not value.dtype.is_floating_point or largest_of(value.detach()) < INFINITE:
        return value
    wide = value.detach().to(torch.float64)
    end = 2.0 ** (n.range_bits - 3)
    return torch.where(wide.abs() >= INFINITE, wide.sign() * end, wide)


def decode(n: Format, elements: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the numbers that ring elements stand for."""
    if not dtype.is_floating_point:
        return elements.to(dtype)
    return (elements.to(torch.float64) / 2.0**n.fraction_bits).to(dtype)


def cap(n: Format, x: Arith) -> Arith:
    """Returns x with a limit within the range of the session: |real value| < 2^range_bits."""
    return x.promise(1 << (n.fraction_bits + n.range_bits + x.pending))


def spare_bits(n: Format, x: Arith) -> int:
    """Returns by how many bits a factor of x may grow it while its division stays exact."""
    return n.ring.bits - 2 - HEADROOM - x.limit.bit_length()


def most_pending(n: Format) -> int:
    """Returns the most bits of a pending division for which any sum still fits the ring."""
    return n.ring.bits - 3 - n.fraction_bits - n.range_bits


def public_bits(n: Format, x: Arith, value: Tensor | float, grown: int = 0) -> int:
    """Returns how many fraction bits a public factor of x gets: as many as fit.

    So that small factors (a learning rate, 1 / n) keep their relative precision. `grown`: by how
    many bits a sum of such products is larger than one product.
    """
    if not isinstance(value, Tensor):
        largest, whole, single = abs(float(value)), float(value).is_integer(), True
    elif not value.dtype.is_floating_point or not value.numel():
        return 0
    else:
        detached, single = value.detach().to(torch.float64), value.numel() == 1
        largest, whole = float(detached.abs().max()), bool((detached == detached.round()).all())
    if whole and largest < 2.0**20:
        return 0
    if not math.isfinite(largest):
        raise RangeError("a public factor is not finite", remedy="choose with torch.where")
    mantissa, exponent = math.frexp(largest)
    magnitude = exponent - (mantissa == 0.5)
    enough = max(most_pending(n) - x.pending, SIGNIFICANT - magnitude)
    bits = max(min(spare_bits(n, x) - grown - magnitude, enough, n.ring.bits - 4 - x.pending), 0)
    if single:  # no more than an exact factor needs: 1 / 4 needs two
        bits = min(bits, largest.as_integer_ratio()[1].bit_length() - 1)
    return bits


def largest_in(x: Arith) -> int:
    """Returns the largest magnitude in a cleartext share, which has one part."""
    [part] = x.parts.values()
    if not part.numel():
        return 0
    low, high = torch.aminmax(part)
    return max(-int(low), int(high))


def range_remedy(n: Format) -> str:
    """Returns what a user can do to make numbers fit the range, for an error's text."""
    most = n.most_range_bits
    fewer = f"fewer fraction_bits than {n.fraction_bits}"
    more = f"a larger range_bits, up to {most}, or " if n.range_bits < most else ""
    return f"scale what grows, or give tacit.run {more}{fewer}"
