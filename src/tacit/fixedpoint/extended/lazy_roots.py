"""Roots of averages of squares that an optimizer divides by: one normalisation for both.

Adam computes m / (sqrt(v) k + eps) with public k and eps. With v k^2 = c 2^(e+1), 1 / sqrt(v k^2)
is a series of the mantissa c times a power of two, so that neither the root nor its reciprocal has
to be made; the power multiplies m while the series is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

from ...protocols import MUL, Arith
from ...protocols.steps import Steps, together
from ..format import Format
from ..functions.mantissa import mantissa_of, of_mantissa, root_octaves
from ..functions.roots import reciprocal_root
from ..functions.share_functions import product, settle_exactly

SERIES_BITS = 21  # fraction bits of 1 / sqrt(c)
POWER_BITS = 20  # of the power of two
MORE_BITS = 4  # of the numerator times the power, beyond those of the result
QUOTIENT_BITS = 12  # |m / (sqrt(v) k)| < 2^12: less than 1 / sqrt(1 - beta) for a beta of Adam
MIDDLES = {1: sqrt(0.72), 2: 0.75}  # of the roots of mantissas, by octaves: eps is added to it


@dataclass(frozen=True)
class RootParts:
    """sqrt(square) factor + summand, of which nothing is computed yet; summand None: not added."""

    square: Any
    factor: float = 1.0
    summand: float | None = None


def divided_by_root(
    n: Format, above: Arith, square: Arith, *, bits: int, square_bits: int, summand: float
) -> Steps[Arith]:
    """Returns above / (max(sqrt(square), 2^-f) + summand), for operands with these fraction bits.

    summand is below 2^-(f+3); it is added exactly in the middle of each octave, and elsewhere up to
    a fifth of it; or a third of one below 2^-(f+10), in the middle of two octaves. r + 4 rounds,
    and a pending division. Relative error 2^-15, and a unit.
    """
    f, p = n.fraction_bits, n.protocol
    octaves = root_octaves(n) if summand < 2.0 ** -(f + 10) else 1

    def power(e: int) -> int:  # 2^(-(e + 1 - square_bits) / 2), less what the summand takes
        inverse = 2.0 ** ((square_bits - e - 1) / 2)
        return round(inverse / (1 + summand * inverse / MIDDLES[octaves]) * 2**POWER_BITS)

    low = square_bits - 2 * f
    parts = yield from mantissa_of(n, square, [power], low=low, octaves=octaves, rate=-1)

    def times_power() -> Steps[Arith]:
        entry = yield from settle_exactly(n, parts.entries[0])
        return (yield from p.bilinear.steps(MUL, above, entry))

    value, scaled = yield from together(
        of_mantissa(n, parts, reciprocal_root, fraction_bits=SERIES_BITS), times_power()
    )
    wide = f + MORE_BITS
    scaled = scaled.promise(1 << (QUOTIENT_BITS + bits + POWER_BITS)).divided(
        bits + POWER_BITS - wide
    )
    value, scaled = yield from together(settle_exactly(n, value), settle_exactly(n, scaled))
    value = value.promise(9 << (SERIES_BITS - 2))  # 1 / sqrt(c) <= 2, with its error
    return (yield from product(n, scaled, value, shift=wide + SERIES_BITS - f))
