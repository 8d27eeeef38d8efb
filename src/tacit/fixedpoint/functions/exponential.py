"""e^x. Results that fixed point cannot hold saturate, at 0 and at 2^range_bits less a unit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil, e, log, log2

from ...protocols import Arith, BitSum
from ...protocols.derived.piecewise import Line, one_hot, quotient_limit
from ...protocols.steps import Steps, together
from ..format import Format, cap
from .mantissa import chebyshev, chebyshev_series
from .share_functions import function, product, settle_exactly

# One table gives e^x below 2^MIDDLE, another one, with larger errors, above.
MIDDLE = 6
# x log2(e) has this many more fraction bits than x.
GUARD = 6


@function
def exponential(n: Format, x: Arith) -> Steps[Arith]:
    """Returns e^x. Relative error 2^-14, and a unit; saturates at 0 and at 2^range_bits.

    With a dealer 4 rounds, or 2 if the limit of x says that x is small.
    """
    if n.protocol.dealt_tables and n.protocol.exact:
        return (yield from _from_tables(n, x))
    return (yield from _by_exponent(n, x))


def _from_tables(n: Format, x: Arith) -> Steps[Arith]:
    """Returns e^x from two dealt tables, each multiplied by the bit of the interval it serves.

    Below the first interval the result is 0, above the last one it is the largest real.
    """
    p, f = n.protocol, n.fraction_bits
    pieces = sorted({min(MIDDLE, n.range_bits), n.range_bits})
    limit = quotient_limit(x)
    if limit <= _units(n, log(2) * pieces[0]):
        return (yield from _tables(n, x, pieces[:1]))[0]
    ends = [-(f + 2), *pieces]
    thresholds = [_units(n, end * log(2)) for end in ends]
    below, tables = yield from together(p.signs.steps(x, thresholds), _tables(n, x, pieces))
    inside = one_hot(p, below)[1:]
    top = (1 << (f + n.range_bits)) - 1
    values, [beyond] = yield from together(
        together(*(p.inject.steps(bit, t) for bit, t in zip(inside, tables, strict=True))),
        p.inject_sums.steps([below[-1]], None, [BitSum((0,), (-top,))]),
    )
    total = p.add_public(beyond, top)
    for value in values:
        total = p.add(total, value)
    return cap(n, total)


def _tables(n: Format, x: Arith, pieces: Sequence[int]) -> Steps[tuple[Arith, ...]]:
    x = yield from n.protocol.settled.steps(x)
    return (yield from together(*(_table(n, x, bits) for bits in pieces)))


def _units(n: Format, value: float) -> int:
    return round(value * 2**n.fraction_bits)


def _table(n: Format, x: Arith, bits: int) -> Steps[Arith]:
    """Returns e^x for x <= bits ln 2, as 2^bits e^(x - bits ln 2).

    The exponential has `bits` more fraction bits, so that the product needs no division.
    """
    p, fraction_bits = n.protocol, n.fraction_bits + bits
    shifted = p.add_public(x.scaled(1 << bits), -round(bits * log(2) * 2**fraction_bits))
    return (yield from p.exp_negative.steps(shifted, fraction_bits=fraction_bits))


def _by_exponent(n: Format, x: Arith) -> Steps[Arith]:
    """Returns 2^u for u = x log2(e) = i + r: a table over i times a polynomial of 0 <= r < 1."""
    p, f = n.protocol, n.fraction_bits
    u = yield from _scaled_to_two(n, x)
    one = 1 << (f + GUARD)
    whole = range(-(f + 1), n.range_bits)
    thresholds = [i * one for i in (*whole, n.range_bits)]
    rest = [Line(0, 0), *(Line(1, -i * one) for i in whole), Line(0, one - 1)]
    powers = [0, *(1 << (i + f + 1) for i in whole), 1 << (n.range_bits + f)]
    rest_and_power = [rest, [Line(0, power) for power in powers]]
    r, power = yield from p.piecewise.steps(u, thresholds, rest_and_power)
    y = p.add_public(r.promise(one).scaled(2), -one).promise(one)
    bits = n.ring.bits - 5 - n.range_bits - f
    value = yield from chebyshev(
        n, y, power_series(2.0**-f), argument_bits=f + GUARD, fraction_bits=bits
    )
    value = value.promise(2 << (bits + value.pending))
    return cap(n, (yield from product(n, value, power, shift=bits + 1)))


def _scaled_to_two(n: Format, x: Arith) -> Steps[Arith]:
    """Returns x log2(e), with GUARD more fraction bits."""
    x = yield from n.protocol.settled.steps(x)
    bits = min(n.ring.bits - 4 - x.limit.bit_length(), 28)
    return (yield from settle_exactly(n, x.scaled(round(log2(e) * 2**bits)).divided(bits - GUARD)))


@cache
def power_series(tolerance: float) -> tuple[float, ...]:
    """Returns the Chebyshev coefficients of 2^((y + 1) / 2) for |y| <= 1."""
    return chebyshev_series(lambda y: 2 ** ((y + 1) / 2), tolerance)


def decaying(n: Format, x: Arith, extra: int) -> Steps[Arith]:
    """Returns e^x for any x <= 1/2, with `extra` more fraction bits. r + 1 rounds with a dealer.

    Results below half of the last bit are 0. In a small ring, a division that is pending is made
    first: with the extra bits, an x whose result is not 0 would not fit. Where the end of a dealt
    table, -22.1 or -33.2, is far enough below, low bits of x are not compared.
    """
    p, f = n.protocol, n.fraction_bits
    end, low = ceil((f + extra + 1) * log(2)) << f, 0
    if p.dealt_tables and end <= 28 << f:
        end, low = (18 if end <= 18 << f else 28) << f, f + 2
    if (end << (x.pending + extra)).bit_length() > n.ring.bits - 1:
        x = yield from p.settled.steps(x)
    value = p.exp_negative.steps(x.scaled(1 << extra), fraction_bits=f + extra, extra=extra)
    most = (27 << (f + extra) >> 4) + 8  # e^(1/2) < 27 / 16, and its error
    if quotient_limit(x) <= end:
        return (yield from p.settled.steps((yield from value))).promise(most)
    small, power = yield from together(p.signs.steps(x, [-end], low=low), value)
    return (yield from p.inject.steps(p.bit_not(small[0]), power)).promise(most)
