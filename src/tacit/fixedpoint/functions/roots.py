"""Square roots and their inverses, and logarithms: a mantissa's polynomial, and a table."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt, log, log2, log10, sqrt

from ...protocols import Arith
from ...protocols.derived.piecewise import quotient_limit
from ...protocols.steps import Steps
from ..compare import absolute
from ..conversion import real, settled
from ..format import Format, cap, most_pending
from ..reduce import Dims, dims_of
from ..value import Value
from .mantissa import Normal, normal, polynomial
from .share_functions import bounded, function, product, run

# The mantissa's function has this many fraction bits, or what the ring allows.
MANTISSA_BITS = 21
LOGARITHMS = {"e": log, "2": log2, "10": log10}


@function
def square_root(n: Format, x: Arith) -> Steps[Arith]:
    """sqrt(x), and 0 for x <= 0. Relative error 2^-15, and a unit."""
    root = yield from root_before_division(n, x, _spare(n))
    return bounded(n, root, sqrt(quotient_limit(x) / 2**n.fraction_bits))


def root_before_division(n: Format, x: Arith, spare: int) -> Steps[Arith]:
    """The root, with a table of `spare` fraction bits beside the mantissa's.

    Of a sum of squares whose division is pending the root is taken first: what is below 2^-f has
    a root of up to 2^(-f / 2). A comparison more for each bit of the division.
    """
    early = min(x.pending, n.fraction_bits)
    f = n.fraction_bits + early

    def power(e: int) -> int:  # 2^((e + 1 - f) / 2)
        return _root_of_power(e + 1 - f + 2 * spare)

    parts = yield from normal(n, x.divided(-early), [power], under=0)
    return (yield from _times(n, parts, sqrt, spare))


def _inverse_root(c: float) -> float:
    return 1 / sqrt(c)


@function
def inverse_square_root(
    n: Format, x: Arith, *, gain: int = 0, excess: Fraction = Fraction(1)
) -> Steps[Arith]:
    """1 / sqrt(x / excess); what is not positive counts as 2^-f. Relative error 2^-15, and a unit.

    `gain` multiplies it by 2^gain before that unit is lost; `excess` is below 2.
    """
    return (yield from inverse_root(n, x, gain, excess))


def inverse_root(n: Format, x: Arith, gain: int, excess: Fraction) -> Steps[Arith]:
    """The same, of an x that may be beyond the range: its limit counts."""
    f, spare = n.fraction_bits, _spare(n, gain)

    def power(e: int) -> int:  # 2^((f - e - 1) / 2) sqrt(excess)
        return _root_of_power(f - e - 1 + 2 * spare, excess)

    parts = yield from normal(n, x, [power])
    root = yield from _times(n, parts, _inverse_root, spare, gain)
    return bounded(n, root, 2 ** (f / 2 + gain) * sqrt(excess))


def _spare(n: Format, gain: int = 0) -> int:
    """The fraction bits of a table of roots of powers of two, beside those of the mantissa.

    Few enough that the product's division may stay pending.
    """
    largest = (max(n.fraction_bits, n.range_bits) + 1) // 2 + 1
    most = n.fraction_bits + gain + most_pending(n) - mantissa_bits(n)
    return min(n.ring.bits - 4 - mantissa_bits(n) - largest, most)


def mantissa_bits(n: Format) -> int:
    return min(MANTISSA_BITS, n.ring.bits // 2 - 6)


def _root_of_power(exponent: int, factor: Fraction = Fraction(1)) -> int:
    """sqrt(2^exponent factor), rounded down."""
    return isqrt(int((1 << exponent) * factor)) if exponent >= 0 else 0


def _times(
    n: Format, parts: Normal, function: Callable[[float], float], spare: int, gain: int = 0
) -> Steps[Arith]:
    """The polynomial of the mantissa times the entry of the table."""
    bits = mantissa_bits(n)
    value = yield from polynomial(n, parts, function, fraction_bits=bits)
    value = value.promise(2 << (bits + value.pending))
    shift = bits + spare - n.fraction_bits - gain
    return cap(n, (yield from product(n, value, parts.entries[0], shift=shift)))


@function
def logarithm(n: Format, x: Arith, base: str = "e", *, low: int = 0) -> Steps[Arith]:
    """The logarithm of x to the base "e", "2" or "10"; what is not positive counts as 2^-f.

    Error: two units, or 2^-16. `low` promises x >= 2^low units.
    """
    p, f, function = n.protocol, n.fraction_bits, LOGARITHMS[base]
    parts = yield from normal(n, x, [lambda e: round((e + 1 - f) * function(2.0) * 2**f)], low=low)
    value = yield from polynomial(n, parts, function, fraction_bits=f)
    [entry] = parts.entries
    largest = max(f, n.range_bits) * function(2.0)
    if (largest + 1) * 2.0 ** (f + value.pending) >= 2.0 ** (n.ring.bits - 2):
        value = yield from p.settled.steps(value)  # the sum would leave its division no room
    return bounded(n, p.add(value, entry), largest)


def vector_norm(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """sqrt(sum of x^2) over dimensions. Relative error 2^-15, and two units.

    The length is below 2^(k/2 - 2 - f), which is 2^14 for 64 bits with 16 fraction bits: the sum
    keeps its size, and only the root is of the range.
    """
    x = real(n, x)
    if not x.shape or not dims_of(x, dims):
        return absolute(n, x)
    half = n.ring.bits // 2 - 2
    elements = settled(n, x).arith.promise(1 << half)
    total = n.protocol.square(elements).sum(*dims_of(x, dims), keepdim=keepdim)
    total = total.promise(1 << 2 * half).divided(n.fraction_bits)
    return Value(run(n, _wide_root, total), x.dtype)


def _wide_root(n: Format, x: Arith) -> Steps[Arith]:
    """sqrt(x) with a table for all exponents that fit the ring."""
    f = n.fraction_bits
    largest = (n.ring.bits - 4 - f - f + 1) // 2 + 1
    spare = min(n.ring.bits - 4 - mantissa_bits(n) - largest, 26)
    return (yield from root_before_division(n, x, spare))
