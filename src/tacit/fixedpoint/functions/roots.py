"""Square roots, inverse square roots, vector norms and logarithms, all by normalisation.

With x = c 2^(e+1): sqrt(x) = sqrt(c) 2^((e+1)/2) and ln x = ln c + (e + 1) ln 2. A series gives the
function of c (mantissa.py), a public table the power of two.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import isqrt, sqrt

from ...protocols import Arith
from ...protocols.derived.piecewise import quotient_limit
from ...protocols.steps import Steps
from ..compare import absolute
from ..format import Format, cap, most_pending
from ..reduce import Dims, dims_of
from ..value import Value, real, settled
from .mantissa import Mantissa, mantissa_of, of_mantissa, root_octaves
from .octave_series import by_pieces, is_cheap
from .share_functions import bounded, function, product, run, settle_exactly
from .wave_fit import Function

# The fraction bits of the function of the mantissa, if the ring allows.
MANTISSA_BITS = 21
LOGARITHMS: dict[str, Function] = {
    "e": Decimal.ln,
    "2": lambda c: c.ln() / Decimal(2).ln(),
    "10": Decimal.log10,
}


@function
def square_root(n: Format, x: Arith) -> Steps[Arith]:
    """Returns sqrt(x), and 0 for x <= 0. Relative error 2^-15, and a unit."""
    root = yield from root_before_division(n, x, table_bits(n))
    return bounded(n, root, sqrt(quotient_limit(x) / 2**n.fraction_bits))


def root_before_division(n: Format, x: Arith, entry_bits: int) -> Steps[Arith]:
    """Returns sqrt(x), with table entries of `entry_bits` fraction bits.

    Takes the root of a sum of squares before its pending division: a number below 2^-f, which the
    division would lose, has a root of up to 2^(-f/2). One comparison more for each pending bit.
    """
    early = min(x.pending, n.fraction_bits)
    x, f = x.divided(-early), n.fraction_bits + early
    if is_cheap(n, x):

        def scale(top: int) -> float:
            return 2.0**n.fraction_bits * sqrt(2.0 ** (top - f))

        return cap(n, (yield from by_pieces(n, x, Decimal.sqrt, scale, under=0)))

    def power(e: int) -> int:  # 2^((e + 1 - f) / 2)
        return root_of_power(e + 1 - f + 2 * entry_bits)

    parts = yield from mantissa_of(n, x, [power], under=0, octaves=root_octaves(n), rate=1)
    return (yield from function_times_entry(n, parts, Decimal.sqrt, entry_bits))


def reciprocal_root(c: Decimal) -> Decimal:
    """Returns 1 / sqrt(c). Named, so that its series is cached."""
    return 1 / c.sqrt()


@function
def inverse_square_root(n: Format, x: Arith) -> Steps[Arith]:
    """Returns 1 / sqrt(x); x <= 0 counts as 2^-f. Relative error 2^-15, and a unit."""
    return (yield from inverse_root(n, x, gain=0, excess=Fraction(1)))


def inverse_root(n: Format, x: Arith, gain: int, excess: Fraction, *, low: int = 0) -> Steps[Arith]:
    """Returns 2^gain / sqrt(x / excess), for a public factor 1 <= excess < 2.

    x may be beyond the range, up to its limit, and counts as 2^low units at least. Errors as
    `inverse_square_root`.
    """
    f, entry_bits = n.fraction_bits, table_bits(n, gain, low=low)
    largest = 2 ** ((f - low) / 2 + gain) * sqrt(excess)
    if is_cheap(n, x, low):

        def scale(top: int) -> float:
            return 2.0 ** (f + gain) * sqrt(float(excess) * 2.0 ** (f - top))

        under = round(scale(low))
        root = yield from by_pieces(n, x, reciprocal_root, scale, low=low, under=under)
        return bounded(n, root, largest)

    def power(e: int) -> int:  # 2^((f - e - 1) / 2) sqrt(excess)
        return root_of_power(f - e - 1 + 2 * entry_bits, excess)

    parts = yield from mantissa_of(n, x, [power], low=low, octaves=root_octaves(n), rate=-1)
    root = yield from function_times_entry(n, parts, reciprocal_root, entry_bits, gain)
    return bounded(n, root, largest)


def table_bits(n: Format, gain: int = 0, *, low: int = 0) -> int:
    """Returns the fraction bits of a table of roots, or of inverse ones from 2^low units on.

    As many as fit, but few enough that the division of the product may stay pending.
    """
    bits = n.fraction_bits - low if low else max(n.fraction_bits, n.range_bits)
    largest = (bits + 1) // 2 + 1
    most = n.fraction_bits + gain + most_pending(n) - mantissa_bits(n)
    return min(n.ring.bits - 4 - mantissa_bits(n) - largest, most)


def mantissa_bits(n: Format) -> int:
    """Returns the fraction bits of the function of the mantissa."""
    return min(MANTISSA_BITS, n.ring.bits // 2 - 6)


def root_of_power(exponent: int, factor: Fraction = Fraction(1)) -> int:
    """Returns sqrt(2^exponent factor), rounded to nearest."""
    return (isqrt(int(Fraction(4) * 2**exponent * factor)) + 1) // 2


def function_times_entry(
    n: Format, parts: Mantissa, function: Function, entry_bits: int, gain: int = 0
) -> Steps[Arith]:
    """Returns 2^gain times the function of the mantissa times the entry of the table."""
    bits = mantissa_bits(n)
    value = yield from of_mantissa(n, parts, function, fraction_bits=bits)
    # sqrt(c) < 1 and 1 / sqrt(c) <= 2, with their errors below 9/4
    value = value.promise(9 << (bits + value.pending - 2))
    shift = bits + entry_bits - n.fraction_bits - gain
    return cap(n, (yield from product(n, value, parts.entries[0], shift=shift)))


@function
def logarithm(n: Format, x: Arith, base: str = "e", *, low: int = 0) -> Steps[Arith]:
    """Returns the logarithm of x to the base "e", "2" or "10"; x <= 0 counts as 2^-f.

    Error: two units, or 2^-16. `low` promises x >= 2^low units.
    """
    p, f, function = n.protocol, n.fraction_bits, LOGARITHMS[base]
    two = float(function(Decimal(2)))

    largest = max(f, n.range_bits) * two

    def exponent_part(e: int) -> int:  # (e + 1 - f) log(2)
        return round((e + 1 - f) * two * 2**f)

    if is_cheap(n, x, low):

        def of_top(top: int) -> int:
            return exponent_part(top - 1)

        least = exponent_part(low - 1)
        logs = by_pieces(n, x, function, lambda _: 2.0**f, low=low, under=least, offset=of_top)
        return bounded(n, (yield from logs), largest)

    parts = yield from mantissa_of(n, x, [exponent_part], low=low)
    value = yield from of_mantissa(n, parts, function, fraction_bits=f, relative=False)
    [entry] = parts.entries
    fits = (largest + 1) * 2.0 ** (f + value.pending) < 2.0 ** (n.ring.bits - 2)
    if not (p.exact and fits):  # with it pending, the sum would not fit, or its division may fail
        value = yield from settle_exactly(n, value)
    return bounded(n, p.add(value, entry), largest)


def vector_norm(n: Format, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """Returns sqrt(sum of x^2) over dimensions. Relative error 2^-15, and two units.

    The norm must be below 2^(k/2 - 2 - f), which is 2^14 for 64 bits and f = 16. The sum of the
    squares may leave the range; only its root is a value of the session.
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
    """Returns sqrt(x), with a table for all exponents that fit the ring."""
    f = n.fraction_bits
    largest = (n.ring.bits - 4 - f - f + 1) // 2 + 1
    entry_bits = min(n.ring.bits - 4 - mantissa_bits(n) - largest, 26)
    return (yield from root_before_division(n, x, entry_bits))
