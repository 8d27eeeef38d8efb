"""Functions of few positive secrets, or of secrets of a small range, in r + 1 rounds.

A piece is two octaves of x, on which the function is a sum of sines of its own (wave_fit.py). All
sums are made while x is compared with the ends of the pieces; then bits choose one. About 200 bytes
are sent for each piece and element, most of them ahead: for many elements of a large range,
normalisation (mantissa.py) takes fewer bytes and some rounds more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import frexp

from ...protocols import Arith, BitSum
from ...protocols.derived.piecewise import one_hot
from ...protocols.steps import Steps, together
from ..format import Format
from .mantissa import exponents, has_waves
from .wave_fit import MARGIN, PERIOD_BITS, Function, fitted

OCTAVES = 2
# Elements times pieces: with more of them, bytes count more than rounds.
MOST_PIECES = 1 << 15
# Thresholds may be off by the margin of the sums: bits below are not compared.
MARGIN_BITS = -frexp(MARGIN)[1] + 1


def is_cheap(n: Format, x: Arith, low: int = 0) -> bool:
    """Returns whether `by_pieces` is the better way for x >= 2^low."""
    return has_waves(n) and x.numel * len(exponents(x, low)[::OCTAVES]) <= MOST_PIECES


def by_pieces(
    n: Format,
    x: Arith,
    function: Function,
    scale: Callable[[int], float],
    *,
    low: int = 0,
    under: int,
    offset: Callable[[int], int] | None = None,
) -> Steps[Arith]:
    """Returns scale(t) function(u) for x = u 2^t, 1/4 <= u <= 1, plus offset(t) if given.

    In units; `under` for x < 2^low. Relative error 2^-(f + 2), or absolute with an offset, and a
    unit. Nothing is pending.
    """
    p, starts = n.protocol, exponents(x, low)[::OCTAVES]
    if starts[-1] + OCTAVES + PERIOD_BITS + x.pending > n.ring.bits:  # no room for its phase
        x = yield from p.settled.steps(x)
    thresholds = [1 << e for e in starts]

    def piece(top: int) -> Steps[Arith]:
        value = _piece(n, x, function, top, scale(top), relative=offset is None)
        return p.add_public((yield from value), offset(top) if offset else 0)

    below, values = yield from together(
        p.signs.steps(x, thresholds, low=max(low - MARGIN_BITS, 0)),
        together(*(piece(e + OCTAVES) for e in starts)),
    )
    first, *between = one_hot(p, below)
    bits = [*between, p.bit_not(below[-1])]
    chosen, [smallest] = yield from together(
        together(*(p.inject.steps(bit, value) for bit, value in zip(bits, values, strict=True))),
        p.inject_sums.steps([first], None, [BitSum((0,), (under,))]),
    )
    total = smallest
    for value in chosen:
        total = p.add(total, value)
    return total


def _piece(
    n: Format, x: Arith, function: Function, top: int, scale: float, *, relative: bool
) -> Steps[Arith]:
    """Returns scale function(x / 2^top), a bounded number for every x. 1 round."""
    mantissa, bits = frexp(scale)
    waves = fitted(function, OCTAVES, 2.0 ** -(n.fraction_bits + 2), relative=relative)
    waves = waves.scaled(mantissa if bits >= 0 else scale)
    return (
        yield from n.protocol.fourier.steps(
            x,
            waves.sines,
            cosines=waves.cosines,
            period_bits=top + PERIOD_BITS,
            fraction_bits=max(bits, 0),
        )
    )
