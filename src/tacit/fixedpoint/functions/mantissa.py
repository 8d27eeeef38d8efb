"""Normalisation: a secret as mantissa and exponent, and functions of the mantissa.

With a dealer, a function of the mantissa is a sum of sines and cosines (wave_fit.py), in one round;
otherwise a Chebyshev polynomial. Chebyshev coefficients are rounded to 2^-26: parties multiply
shares by them, so they must have the same bits on every machine.

NOTE [blocks]: each exponent costs a comparison and an injection, about 40 bytes an element. Many
numbers are therefore normalised twice: a power of two brings them into the last of three blocks of
exponents, and there they have a third of the exponents. The second comparisons look at few bits,
because what they compare is large: numbers that are just below a power of two may be taken to have
reached it, where a sum of sines is right as well (wave_fit.MARGIN).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from math import cos, pi

from ...protocols import MUL, Arith
from ...protocols.derived.piecewise import Line, quotient_limit
from ...protocols.steps import Steps, together
from ..format import Format
from .wave_fit import PERIOD_BITS, Function, fitted

COEFFICIENT_BITS = 26
NODES = 64
BLOCKS = 3
# From so many elements times exponents beyond nine on, blocks save more than five rounds are worth.
MANY = 1 << 16
FEW = 1 << 12  # with fewer elements, comparisons are exact
ENTRY_BITS = 19  # of the smallest entry for a number of the last block, if entries are rounded
MARGIN_BITS = 8  # 2^-8 for each of two comparisons is within the margin of waves

Table = Callable[[int], int]


@dataclass(frozen=True)
class Mantissa:
    """The mantissa c in [2^-octaves, 1) of x = c 2^(e+1), and what tables hold for its exponent e.

    c and y = 4 c - 3, which is in [-1, 1) for one octave, have `bits` fraction bits. entries: one
    of each table.
    """

    c: Arith
    y: Arith
    bits: int
    entries: list[Arith]
    octaves: int = 1


def exponents(x: Arith, low: int = 0) -> range:
    """Returns the exponents e, 2^e <= |x| < 2^(e+1), that x may have if |x| >= 2^low."""
    return range(low, max(quotient_limit(x).bit_length(), low + 1))


def mantissa_of(
    n: Format,
    x: Arith,
    tables: Sequence[Table],
    *,
    low: int = 0,
    signed: bool = False,
    under: int | None = None,
    octaves: int = 1,
    rate: int | None = None,
    positive: bool = False,
) -> Steps[Mantissa]:
    """Returns the mantissa of x, and for each table its entry at the exponent of x.

    An x below 2^low counts as 2^low; its entries are `under` if that is given. `signed`: x may also
    be negative, with |x| >= 2^low; then the entry of the first table has the sign of x. r + 1
    rounds: one comparison with each power of two (and its negative), all in parallel, then a choice
    among lines, x 2^(high - 1 - e) for the mantissa and constants for the entries. With several
    octaves, numbers of so many share an exponent, the largest: fewer comparisons and lines, and a
    function of the mantissa that takes more.

    rate: the one table is about a power of two, of an exponent that grows by rate / 2 for each of
    e. Then many numbers take 2 r + 3 rounds and fewer bytes, see NOTE [blocks], and the division of
    the entry may be pending; under: None or 0. `positive` promises x >= 0 there, for one comparison
    less.
    """
    if rate is not None and not signed and in_blocks(n, x, low, octaves):
        [table] = tables
        blocks = _blocks(table, exponents(x, low), octaves, rate)
        if blocks is not None and blocks.high <= n.ring.bits - PERIOD_BITS - 2:
            steps = _mantissa_by_blocks(n, x, blocks, under, octaves, positive=positive)
            return (yield from steps)
    dropped = 0 if signed or not has_waves(n) or x.numel < FEW else max(low - MARGIN_BITS, 0)
    steps = _mantissa(n, x, tables, low, under, octaves, signed=signed, dropped=dropped)
    return (yield from steps)


def in_blocks(n: Format, x: Arith, low: int = 0, octaves: int = 1) -> bool:
    """Returns whether blocks of exponents are worth their rounds; see NOTE [blocks]."""
    count = len(exponents(x, low)[::octaves])
    return has_waves(n) and x.numel * (count - 9) >= MANY


@dataclass(frozen=True)
class Blocks:
    """How x is brought into the last of the blocks, and the table there.

    starts: of the blocks, as exponents; shifts: to the last block. The entry of x in block b is
    (factors[b] entry(e), and in the first block less factors[0] correction(e) if there is one) /
    2^pending, for the exponent e of x 2^shifts[b]. largest: a bound on it, before that division.
    """

    starts: Sequence[int]
    shifts: Sequence[int]
    high: int
    factors: Sequence[int]
    entry: Table
    correction: Table | None
    pending: int
    largest: int


def _blocks(table: Table, exponents: range, octaves: int, rate: int) -> Blocks | None:
    """Returns the blocks for a table of this rate; None if it is not one of that rate."""
    width = octaves * -(-len(exponents) // (octaves * BLOCKS))
    width += rate * width % 2
    starts = range(exponents.start, exponents.start + BLOCKS * width, width)
    spread = starts[-1] - starts[0]
    shifts = [starts[-1] - start for start in starts]
    least = min(table(exponents[0]), table(exponents[-1]))
    pending = max(ENTRY_BITS - least.bit_length(), 0) if rate % 2 else 0
    if rate < 0:  # the table ends at the largest x, the last block beyond it
        pending += (-rate * (starts[-1] + width - exponents.stop) + 1) // 2
    anchor = (spread if rate > 0 else 0) - 2 * pending // rate
    factors = [1 << (pending + rate * (anchor - shift) // 2) for shift in shifts]

    def entry(e: int) -> int:
        return table(e - anchor)

    def excess(e: int) -> int:  # of an entry in the first block
        return entry(e) - (table(e - spread) << pending) // factors[0]

    def error(e: int) -> float:  # of an entry that is not corrected, in units
        block = (e - starts[0]) // width
        found = (entry(e + shifts[block]) * factors[block]) / 2**pending
        return abs(found - table(e)) - 1 - abs(table(e)) * 2.0**-17

    wrong = {(e - starts[0]) // width for e in exponents if error(e) > 0}
    if wrong - {0}:
        return None
    largest = max(map(abs, (table(exponents[0]), table(exponents[-1])))) << pending
    return Blocks(
        *(starts, shifts, starts[-1] + width, factors, entry, excess if wrong else None),
        *(pending, 2 * largest),
    )


def _mantissa_by_blocks(
    n: Format, x: Arith, blocks: Blocks, under: int | None, octaves: int, *, positive: bool
) -> Steps[Mantissa]:
    p, starts, tables = n.protocol, blocks.starts, [blocks.entry]
    thresholds = [1 << start for start in starts[1:]]
    functions = [[Line(1 << s, 0) for s in blocks.shifts], [Line(0, u) for u in blocks.factors]]
    if blocks.correction is not None:
        tables.append(blocks.correction)
        functions.append([Line(0, -blocks.factors[0]), *[Line(0, 0)] * (BLOCKS - 1)])
    if not positive:  # -x could leave the ring
        thresholds.insert(0, 0)
        functions = [[Line(0, lines[0].offset), *lines] for lines in functions]
    dropped = max(starts[1] - MARGIN_BITS, 0)
    moved, *factors = yield from p.piecewise.steps(x, thresholds, functions, low=dropped)
    moved = moved.promise((1 << blocks.high) - 1)
    dropped = starts[-1] - MARGIN_BITS
    found = yield from _mantissa(n, moved, tables, starts[-1], under, octaves, dropped=dropped)
    pairs = zip(factors, found.entries, strict=True)
    terms = yield from together(*(p.bilinear.steps(MUL, u, entry) for u, entry in pairs))
    entry = terms[0] if len(terms) == 1 else p.add(*terms)
    entry = entry.promise(blocks.largest).divided(blocks.pending)
    return replace(found, entries=[entry])


def _mantissa(
    n: Format,
    x: Arith,
    tables: Sequence[Table],
    low: int,
    under: int | None,
    octaves: int,
    *,
    signed: bool = False,
    dropped: int = 0,
) -> Steps[Mantissa]:
    """The mantissa of x by comparisons with all powers of two, which drop some low bits."""
    high = exponents(x, low).stop
    tops = range(high - 1, low - 1, -octaves)[::-1]
    scales = [Line(1 << (high - 1 - e), 0) for e in tops]
    columns = [scales, *([Line(0, table(e)) for e in tops] for table in tables)]
    least = [table(tops[0]) if under is None else under for table in tables]
    smallest = [Line(0, 1 << (high - 1 - tops[0] + low)), *(Line(0, entry) for entry in least)]
    # What may be just below 2^low for a comparison before is not less.
    lowest = (1 << low) - (2 << dropped if dropped else 0)
    thresholds = [lowest, *(1 << (e + 1) for e in tops[:-1])]
    functions = [[under, *lines] for under, lines in zip(smallest, columns, strict=True)]
    if signed:
        thresholds = [1 - t for t in reversed(thresholds)] + thresholds
        # For x < 0 the mantissa is that of |x|: its line has the opposite slope. The entry of the
        # first table has the opposite sign.
        odd = [True, True, *(False for _ in columns[2:])]
        functions = [
            [_mirrored(line, flip) for line in reversed(lines)] + function
            for lines, function, flip in zip(columns, functions, odd, strict=True)
        ]
    value, *entries = yield from n.protocol.piecewise.steps(x, thresholds, functions, low=dropped)
    c = value.promise(1 << high)
    y = n.protocol.add_public(c.scaled(4), -(3 << high))
    y = y.promise(1 << high) if octaves == 1 else y
    return Mantissa(c, y, high, entries, octaves)


def _mirrored(line: Line, flip: bool) -> Line:
    """Returns the line with both signs changed, if `flip` says so."""
    return Line(-line.scale, -line.offset) if flip else line


def has_waves(n: Format) -> bool:
    """Returns whether sums of sines are in one round, and at least as accurate as polynomials.

    In a small ring, or with probabilistic divisions, their factors have too few bits.
    """
    return n.protocol.dealt_tables and n.protocol.exact and n.ring.bits == 64


def root_octaves(n: Format) -> int:
    """Returns the octaves of a mantissa whose root is taken.

    With two, half of the comparisons are left, and a dealer deals two sines and cosines more.
    """
    return 2 if has_waves(n) else 1


def of_mantissa(
    n: Format,
    mantissa: Mantissa,
    function: Function,
    *,
    fraction_bits: int,
    relative: bool = True,
) -> Steps[Arith]:
    """Returns function(c) of the mantissa c, with `fraction_bits`. Its division may be pending.

    Error 2^-f of the function, or 2^-f if it is not `relative`, as where the function is near 0. 1
    round with a dealer; see `chebyshev`.
    """
    bits, tolerance = mantissa.bits, 2.0**-n.fraction_bits
    if not has_waves(n):
        series = mantissa_series(function, tolerance)
        steps = chebyshev(n, mantissa.y, series, argument_bits=bits, fraction_bits=fraction_bits)
        return (yield from steps)
    waves = fitted(function, mantissa.octaves, tolerance / 4**mantissa.octaves, relative=relative)
    return (
        yield from n.protocol.fourier.steps(
            mantissa.c,
            waves.sines,
            cosines=waves.cosines,
            period_bits=bits + PERIOD_BITS,
            fraction_bits=fraction_bits,
        )
    )


def chebyshev(
    n: Format,
    y: Arith,
    coefficients: Sequence[float],
    *,
    argument_bits: int,
    fraction_bits: int,
) -> Steps[Arith]:
    """Returns a Chebyshev series at y, |y| <= 1, with `fraction_bits`.

    Computes it with at most f fraction bits if divisions are probabilistic: products stay small.
    """
    p = n.protocol
    bits = fraction_bits if p.exact else min(fraction_bits, n.fraction_bits)
    steps = p.chebyshev.steps(y, coefficients, argument_bits=argument_bits, fraction_bits=bits)
    value, more = (yield from steps), fraction_bits - bits
    left = min(value.pending, more)  # a division left pending would leave no room for a factor
    return value.divided(-left).scaled(1 << (more - left))


@cache
def mantissa_series(function: Function, tolerance: float) -> tuple[float, ...]:
    """Returns the Chebyshev coefficients of function((y + 3) / 4) for |y| <= 1."""
    return chebyshev_series(lambda y: float(function(Decimal((y + 3) / 4))), tolerance)


def chebyshev_series(function: Callable[[float], float], tolerance: float) -> tuple[float, ...]:
    """Returns the fewest Chebyshev coefficients of a function of |y| <= 1 for this tolerance.

    The magnitudes of the coefficients left out add up to no more than the tolerance.
    """
    angles = [(i + 0.5) * pi / NODES for i in range(NODES)]
    values = [function(cos(angle)) for angle in angles]
    series = []
    for j in range(NODES // 2):
        terms = (v * cos(j * angle) for v, angle in zip(values, angles, strict=True))
        series.append((1 if j == 0 else 2) / NODES * sum(terms))
    degree = next(d for d in range(1, len(series)) if sum(map(abs, series[d + 1 :])) <= tolerance)
    scale = 2.0**COEFFICIENT_BITS
    return tuple(round(c * scale) / scale for c in series[: degree + 1])
