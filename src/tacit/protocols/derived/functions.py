"""Functions of integers with a public scale, from the core alone.

An integer x stands for x / 2^fraction_bits, where the number of fraction bits is an argument.
Protocols with a dealer replace `fourier` and `exp_negative` by faster ones. Divisions of results
may be pending.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import cos, log2, pi, sin

from ...errors import ConfigError
from ..core import BitSum, ProtocolCore
from ..products.bilinear import MUL
from ..share import Arith
from ..steps import Steps, together
from .chebyshev import chebyshev
from .piecewise import Line, one_hot, piecewise, quotient_limit

# Chebyshev terms that change a value by less than this in all are left out.
TOLERANCE = 2.0**-14
MOST_FOLDS = 128
# e^y = (p(y))^16 with p(y) = 1 + C1 y + y^2 (C2 + C3 y + C4 y^2) for y = x / 16.
EXP = (0.9995678364, 0.4959536171, 0.1542979784, 0.0258091658)
SQUARINGS = 4


def normalise(
    p: ProtocolCore, x: Arith, low: int, high: int, tables: Sequence[Sequence[int]] = ()
) -> Steps[tuple[Arith, list[Arith]]]:
    """Returns x times the power of two that brings it to [2^(high-1), 2^high), and table entries.

    For 2^low <= x < 2^high; outside, garbage. Each table has an entry for each e from low to
    high - 1; the entry with 2^e <= x < 2^(e+1) is returned. r + 1 rounds, high - low - 1
    comparisons with the same leaf tables (thermometer normalisation).
    """
    if not 0 <= low < high:
        raise ConfigError(f"low={low}, high={high}", limit="0 <= low < high is needed")
    for table in tables:
        if len(table) != high - low:
            raise ConfigError(f"a table of {len(table)} entries", limit=f"{high - low} are needed")
    middle = 1 << (high - 1)  # x - middle needs one bit less than x
    centred = p.add_public(x, -middle).promise(middle << x.pending)
    scales = [1 << (high - 1 - e) for e in range(low, high)]
    functions = [[Line(scale, scale * middle) for scale in scales]]
    functions += [[Line(0, entry) for entry in table] for table in tables]
    thresholds = [(1 << e) - middle for e in range(low + 1, high)]
    value, *entries = yield from piecewise(p, centred, thresholds, functions)
    return value.promise(1 << high), entries


def fourier(
    p: ProtocolCore,
    x: Arith,
    coefficients: Sequence[float],
    *,
    period_bits: int,
    fraction_bits: int,
    tolerance: float = TOLERANCE,
    factor: Arith | None = None,
    cosines: Sequence[float] = (),
) -> Steps[Arith]:
    """Returns the sum over i of coefficients[i] sin(2 pi (2 i + 1) x / 2^period_bits).

    With a factor, of the shape of x, the sum times that integer: a product more. Without a dealer:
    x is folded into a quarter of the period (r + 1 rounds, none if x.limit says that it lies
    there), then a Chebyshev polynomial. Off by `tolerance` and a few units at most. A caller that
    replaces results for large |x| promises a limit first, and saves the folding. `cosines` of the
    same phases need a dealer.
    """
    if cosines:
        raise ConfigError("cosines beside the sines of a series", limit="protocols with a dealer")
    x = yield from _folded(p, x, period_bits - 2)
    series, bits = odd_series(tuple(coefficients), tolerance), period_bits - 2
    value = yield from chebyshev(p, x, series, argument_bits=bits, fraction_bits=fraction_bits)
    return (yield from _times(p, value, factor))


def saturated(
    p: ProtocolCore,
    x: Arith,
    coefficients: Sequence[float],
    *,
    period_bits: int,
    fraction_bits: int,
    tails: tuple[int, int],
    offset: int = 0,
    factor: Arith | None = None,
) -> Steps[Arith]:
    """Returns offset + fourier(x) if |x| < 2^(period_bits-2), and the left or right tail beyond.

    With a factor, of the shape of x, the result times that integer: a product more.
    For sigmoid, tanh and erf: the odd series only rises from one tail to the other. The series runs
    in parallel with the two comparisons: r + 1 rounds with a dealer. If x.limit says that x lies
    inside, it is the series alone, 1 round, and its division is pending.
    """
    quarter, (left, right) = 1 << (period_bits - 2), tails

    def inner() -> Steps[Arith]:
        near = x.promise(quarter << x.pending)
        series = p.fourier.steps(
            near, coefficients, period_bits=period_bits, fraction_bits=fraction_bits
        )
        return p.add_public((yield from series), offset)

    def settled_inner() -> Steps[Arith]:
        return (yield from p.settled.steps((yield from inner())))

    if quotient_limit(x) <= quarter:
        return (yield from _times(p, (yield from inner()), factor))
    bits, value = yield from together(p.signs.steps(x, [-quarter, quarter]), settled_inner())
    row = BitSum((0, 1), (left - right, -right))
    [sums] = yield from p.inject_sums.steps(one_hot(p, bits), value, [row])
    return (yield from _times(p, p.add_public(sums, right), factor))


def _times(p: ProtocolCore, x: Arith, factor: Arith | None) -> Steps[Arith]:
    return x if factor is None else (yield from p.bilinear.steps(MUL, x, factor))


def exp_negative(p: ProtocolCore, x: Arith, *, fraction_bits: int, extra: int = 0) -> Steps[Arith]:
    """Returns e^x for -50 <= x <= 0, as p(x / 16)^16 with p of degree 4.

    Without a dealer, and whatever `extra` is. 6 products one after the other. Error at most
    1e-4 + 2^(4 - b), where b is fraction_bits + 4, or half the ring less 3 bits if that is less.
    With probabilistic divisions b is 2 less, so that they fail less often.
    """
    room = p.ring.bits - 2
    bits = min(fraction_bits + (SQUARINGS if p.exact else SQUARINGS - 2), (room - 4) // 2)
    y = yield from p.settled.steps(x.divided(fraction_bits + SQUARINGS - bits))
    y = y.promise(4 << bits)
    square = yield from p.bilinear.steps(MUL, y, y, shift=bits)
    square = (yield from p.settled.steps(square)).promise(16 << bits)
    power = yield from _quartic(p, y, square, bits, room - 4 - 2 * bits)
    for i in range(SQUARINGS):
        shift = bits if i < SQUARINGS - 1 else 2 * bits - fraction_bits
        power = yield from p.bilinear.steps(MUL, power, power, shift=shift)
    return power.promise(2 << (fraction_bits + power.pending))


def _quartic(p: ProtocolCore, y: Arith, square: Arith, bits: int, spare: int) -> Steps[Arith]:
    """Returns p(y) of EXP. Coefficients take the spare bits of the product, or are divided first.

    A probabilistic division costs no round, and fails less often the smaller the product is.
    """
    divide_first = spare < 10 or not p.exact
    fine = min(bits if divide_first else spare, 16)
    c1, c2, c3, c4 = (round(c * 2**fine) for c in EXP)
    inner = p.add_public(p.add(y.scaled(c3), square.scaled(c4)), c2 << bits)
    if divide_first:
        inner, shift = inner.divided(fine), bits
    else:
        shift = bits + fine
    outer = yield from p.bilinear.steps(MUL, square, inner, shift=shift)
    value = p.add_public(p.add(outer, y.scaled(c1).divided(fine)), 1 << bits)
    return value.promise(2 << (bits + value.pending))


def _folded(p: ProtocolCore, x: Arith, quarter_bits: int) -> Steps[Arith]:
    """Returns the z with |z| <= 2^quarter_bits that has the same odd sines as x.

    With q = 2^quarter_bits, a quarter of the period: z = (-1)^n (x - 2 n q) for the n that makes
    2 n q nearest to x.
    """
    quarter = 1 << quarter_bits
    limit = quotient_limit(x)
    if limit <= quarter:
        return x
    most = (limit + quarter) // (2 * quarter)
    if 2 * most > MOST_FOLDS:
        raise ConfigError(
            f"a limit of 2^{log2(limit):.0f} is {most} half periods",
            limit=f"{MOST_FOLDS // 2} at most",
            remedy="promise a smaller limit",
        )
    signs = {n: -1 if n % 2 else 1 for n in range(-most, most + 1)}
    lines = [Line(sign, -sign * 2 * n * quarter) for n, sign in signs.items()]
    thresholds = [(2 * n - 1) * quarter for n in range(1 - most, most + 1)]
    [folded] = yield from piecewise(p, x, thresholds, [lines])
    return folded.promise(quarter)


@cache
def odd_series(
    coefficients: tuple[float, ...], tolerance: float = TOLERANCE, nodes: int = 128
) -> tuple[float, ...]:
    """Returns the Chebyshev series on |z| <= 1 of the sum of coefficients[i] sin(pi/2 (2i+1) z)."""
    angles = [(i + 0.5) * pi / nodes for i in range(nodes)]
    values = [
        sum(c * sin(pi / 2 * (2 * i + 1) * cos(angle)) for i, c in enumerate(coefficients))
        for angle in angles
    ]
    series = [0.0] * nodes
    for j in range(1, nodes, 2):
        terms = (v * cos(j * angle) for v, angle in zip(values, angles, strict=True))
        series[j] = 2 / nodes * sum(terms)
    degree, left_out = nodes - 1, 0.0
    while degree > 1 and left_out + abs(series[degree]) <= tolerance:
        left_out += abs(series[degree])
        degree -= 2
    return tuple(series[: degree + 1])
