"""Float64 in kernels with the bits of `tacit.ring.deterministic`, operation by operation.

Kernels are compiled without joining a product and a sum into one rounding, and constants are read
from a table, because Triton would shorten them.
"""

import triton
import triton.language as tl

_INTEGERS_FROM = tl.constexpr(1 << 52)  # a float64 of at least this size is an integer
_EXPONENT_BIAS = tl.constexpr(1023)
_MANTISSA_BITS = tl.constexpr(52)


@triton.jit
def horner(x: tl.tensor, table: tl.tensor, FIRST: tl.constexpr, COUNT: tl.constexpr) -> tl.tensor:
    """Returns the polynomial at x whose coefficients, the constant first, begin at FIRST."""
    total = x * 0 + tl.load(table + FIRST + COUNT - 1)
    for i in tl.static_range(1, COUNT):
        total = total * x + tl.load(table + FIRST + COUNT - 1 - i)
    return total


@triton.jit
def rounded(x: tl.tensor) -> tl.tensor:
    """Returns the nearest integer, the even one if two are as near.

    Beyond 2^52 a float64 has no fraction: adding that much rounds, and taking it away is exact.
    """
    large = x * 0 + _INTEGERS_FROM
    signed = tl.where(x < 0, -large, large)
    return tl.where(tl.abs(x) < large, (x + signed) - signed, x)


@triton.jit
def power_of_two(exponent: tl.tensor) -> tl.tensor:
    """Returns 2^exponent for integers of magnitude below 1023."""
    bits = (exponent.to(tl.int64) + _EXPONENT_BIAS) << _MANTISSA_BITS
    return bits.to(tl.float64, bitcast=True)
