"""Sine series of smooth functions that become lines on both sides: sigmoid, GELU, softplus, ...

For |x| < L a curve is a series (series_fit.py); beyond, it is one of its lines. With a dealer the
divisions of the series and of x are made while bits choose between them, and thresholds may be off
by L / 2^MARGIN_BITS, because both are close to the curve there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...protocols import MUL, Arith, BitSum, Bool
from ...protocols.derived.piecewise import quotient_limit
from ...protocols.steps import Steps, together
from ..format import Format, cap
from ..value import Value, real
from .series_fit import Curve, Series, series
from .share_functions import bounded, run

if TYPE_CHECKING:
    from ...protocols import Protocol

# A longer series saves comparisons where |x| is known to be below 2^WIDEST_REACH_BITS. Its
# harmonics cost more bytes, so only for few elements.
WIDEST_REACH_BITS, FEW = 4, 1024
MARGIN_BITS = 6


def curve_value(n: Format, x: Value, curve: Curve) -> Value:
    """Returns the curve at x. r + 1 rounds with a dealer; 1 if the limit of x is below L."""
    x = real(n, x)
    share = cap(n, x.arith)
    largest = _largest(curve, quotient_limit(share) / 2**n.fraction_bits)
    result = run(n, _curve, share, series(curve, n.fraction_bits), curve)
    return Value(bounded(n, result, largest), x.dtype)


def _largest(curve: Curve, reach: float) -> float:
    """Returns a bound of the curve for |x| <= reach: on its lines, or 2 in its middle."""
    lines = [abs(slope) * reach + abs(offset) for slope, offset in (curve.left, curve.right)]
    return max(*lines, 2.0)


def bounded_curve(
    n: Format, x: Arith, curve: Curve, *, factor: Arith | None = None
) -> Steps[Arith]:
    """Returns the curve at x, times a factor if there is one; both lines must be constant.

    With a factor that is a real, the result has 2 f fraction bits. Rounds with a dealer: 1 if the
    limit of x is below L, or for few elements below 2^WIDEST_REACH_BITS; else 2 for few elements
    and r + 1 for many. Without a dealer, or with a factor in a small ring, a product more.
    """
    p, f = n.protocol, n.fraction_bits
    reach_bits = max((quotient_limit(x) - 1).bit_length() - f, 1)
    widens = x.numel <= FEW and reach_bits <= WIDEST_REACH_BITS
    expansion = series(curve, f, reach_bits if widens else 1)
    assert not expansion.even
    period, one = f + expansion.reach_bits + 2, 1 << f
    offset = round(expansion.offset * one)
    if quotient_limit(x) > one << expansion.reach_bits:
        left, right = (round(height * one) for _, height in (curve.left, curve.right))
        return (
            yield from p.saturated.steps(
                x,
                expansion.odd,
                period_bits=period,
                fraction_bits=f,
                tails=(left, right),
                offset=offset,
                factor=factor,
            )
        )
    fused = factor if n.ring.bits == 64 else None  # or too few bits are left for the sines
    value = yield from p.fourier.steps(
        x, expansion.odd, period_bits=period, fraction_bits=f, factor=fused
    )
    if factor is None:
        return p.add_public(value, offset)
    if fused is None:
        value = yield from p.bilinear.steps(MUL, value, factor)
    return p.add(value, factor.scaled(offset)) if offset else value


def _curve(n: Format, x: Arith, expansion: Series, curve: Curve) -> Steps[Arith]:
    """Computes the series and the bits [x < -L], [x < L] in parallel, then chooses.

    With a dealer, low bits of x are not compared: an x up to L / 2^MARGIN_BITS beyond may be taken
    for |x| < L.
    """
    p, one = n.protocol, 1 << n.fraction_bits
    quarter = one << expansion.reach_bits  # L, a quarter of the period
    if x.pending + n.fraction_bits + expansion.reach_bits + 3 > n.ring.bits:
        x = yield from p.settled.steps(x)
    if quotient_limit(x) <= quarter:
        return (yield from _inner(n, x, expansion))
    tails = [curve.left, curve.right]
    if not expansion.even and not expansion.twice_slope and not curve.right[0]:
        left, right = (round(offset * one) for _, offset in tails)
        return (
            yield from p.saturated.steps(
                x,
                expansion.odd,
                period_bits=n.fraction_bits + expansion.reach_bits + 2,
                fraction_bits=n.fraction_bits,
                tails=(left, right),
                offset=round(expansion.offset * one),
            )
        )
    divides_later = p.dealt_tables and p.exact
    low = max(n.fraction_bits + expansion.reach_bits - MARGIN_BITS, 0) if divides_later else 0
    far = quarter + (1 << low if low else 0)

    def middle() -> Steps[Arith]:
        inside = x if divides_later else (yield from p.settled.steps(x))
        near = inside.promise(far << inside.pending)
        return (yield from _inner(n, near, expansion, minus=_constant_line(curve)))

    below, inner = yield from together(p.signs.steps(x, [-quarter, far], low=low), middle())
    return (yield from _with_lines(n, x, below, inner, curve))


def _constant_line(curve: Curve) -> float:
    """Returns the offset of the line that is the result where no bit chooses another one."""
    return curve.right[1] if curve.left[0] else curve.left[1]


def _with_lines(
    n: Format, x: Arith, below: Sequence[Bool], middle: Arith, curve: Curve
) -> Steps[Arith]:
    """Returns base + [|x| < L] middle + [x is beyond on the other side] (other line - base).

    below: [x < -L], [x < L]. The base is a constant line, which is left out of the middle.
    """
    p, one = n.protocol, 1 << n.fraction_bits
    base = _constant_line(curve)
    bit, (slope, offset) = (
        (below[0], curve.left) if curve.left[0] else (p.bit_not(below[1]), curve.right)
    )
    rise = round((offset - base) * one)
    if slope:
        line = p.add_public(x.scaled(slope), rise)
        other = p.inject.steps(bit, line)
    else:
        other = _constant(p, bit, rise)
    inner, outer = yield from together(p.inject.steps(p.bit_xor(below[0], below[1]), middle), other)
    return p.add_public(p.add(inner, outer), round(base * one))


def _constant(p: Protocol, bit: Bool, value: int) -> Steps[Arith]:
    """Returns the bit times a public integer."""
    [product] = yield from p.inject_sums.steps([bit], None, [BitSum((0,), (value,))])
    return product


def _inner(n: Format, x: Arith, expansion: Series, minus: float = 0.0) -> Steps[Arith]:
    """Returns the series less a constant, with one more fraction bit: a division by 2 is pending.

    With a dealer, so are the divisions of the waves and of x, if their sum fits the ring.
    """
    p, f = n.protocol, n.fraction_bits
    period = f + expansion.reach_bits + 2
    calls = []
    for coefficients, shift in ((expansion.odd, 0), (_as_sines(expansion.even), 1 << (period - 2))):
        if coefficients:
            calls.append(_wave(n, x, coefficients, shift, period))
    parts = list((yield from together(*calls)))
    if expansion.twice_slope:
        parts.append(x.scaled(expansion.twice_slope))
    offset = round((expansion.offset - minus) * 2 ** (f + 1))
    if not (p.dealt_tables and p.exact and _sum_fits(n, parts, offset)):
        parts = list((yield from together(*(p.settled.steps(part) for part in parts))))
    total = parts[0]
    for part in parts[1:]:
        total = p.add(total, part)
    return p.add_public(total, offset).divided(1)


def _sum_fits(n: Format, parts: Sequence[Arith], offset: int) -> bool:
    """Returns whether the sum of pending quotients and an integer can be divided exactly."""
    most = max(part.pending for part in parts)
    limit = sum(part.limit << (most - part.pending) for part in parts)
    return limit + (abs(offset) << most) < 1 << (n.ring.bits - 2)


def _wave(
    n: Format, x: Arith, coefficients: Sequence[float], shift: int, period: int
) -> Steps[Arith]:
    """Returns the sum of c_h sin(2 pi h (x + shift) / 2^period), with one more fraction bit."""
    p = n.protocol
    x = p.add_public(x, shift) if shift else x
    return (
        yield from p.fourier.steps(
            x, coefficients, period_bits=period, fraction_bits=n.fraction_bits + 1
        )
    )


def _as_sines(even: Sequence[float]) -> list[float]:
    """Returns the coefficients of sin(h (x + pi/2)), which is cos x, -cos 3x, cos 5x, ..."""
    return [-c if i % 2 else c for i, c in enumerate(even)]
