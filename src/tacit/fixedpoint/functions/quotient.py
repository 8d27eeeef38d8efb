"""Reciprocals and quotients, by normalisation.

For b = c 2^(e+1-f) with c in [1/2, 1), 1/b = 2^(f-e-1) / c: a table gives the power of two, a
series 1/c (mantissa.py). A quotient multiplies its numerator by the power of two in parallel with
the series, so that it takes the rounds of a reciprocal and keeps the relative precision.
"""

from __future__ import annotations

from decimal import Decimal

import torch
from torch import Tensor

from ...protocols import Arith
from ...protocols.steps import Steps, together
from ..arithmetic import mul
from ..encoding import encode, require_divisor
from ..format import Format, cap, most_pending
from ..symbolic import SymbolicNumber
from ..value import Operand, Value, convert, real, result_dtype
from .mantissa import Mantissa, exponents, has_waves, mantissa_of, of_mantissa
from .octave_series import by_pieces, is_cheap
from .share_functions import function, product, run, settle_exactly

# Up to this many elements, the sign of a divisor is found in parallel with its magnitude, with
# twice the comparisons. For more elements it is found first, in r + 1 rounds more.
FEW_ELEMENTS = 1 << 13
# The inverse of a mantissa has at least this many fraction bits, if they fit; more, if the division
# of the result can still stay pending.
LEAST_BITS = 18


def inverse_octaves(n: Format, elements: int) -> int:
    """Returns the octaves of a mantissa whose inverse is taken.

    Of many elements, two: half of the comparisons, and four sines and cosines more.
    """
    return 2 if has_waves(n) and elements > FEW_ELEMENTS else 1


def inverse(c: Decimal) -> Decimal:
    """Returns 1 / c. Named, so that its series is cached."""
    return 1 / c


@function
def reciprocal(n: Format, x: Arith, *, positive: bool = False) -> Steps[Arith]:
    """Returns 1/x. Relative error 2^-15, and a unit; 1/0 is 2^f, the largest result.

    `positive` promises x > 0, which halves the comparisons.
    """
    return (yield from inverted(n, x, positive=positive))


def inverted(
    n: Format, x: Arith, *, positive: bool, low: int = 0, fraction_bits: int | None = None
) -> Steps[Arith]:
    """Returns 1/x with `fraction_bits`, for |x| >= 2^low. Its division may be pending."""
    f = n.fraction_bits
    wanted = f if fraction_bits is None else fraction_bits
    if positive and is_cheap(n, x, low):

        def scale(top: int) -> float:
            return 2.0 ** (f + wanted - top)

        under = 1 << (f + wanted - low)
        return cap(n, (yield from by_pieces(n, x, inverse, scale, low=low, under=under)))
    scaled = _scale_bits(n, x, low)
    parts, sign = yield from _magnitude(n, x, scaled, positive=positive, low=low)
    # 1/c times the largest entry fits the ring.
    room = n.ring.bits - 2 - parts.octaves - len(exponents(x, low))
    bits = min(room, max(most_pending(n) - scaled + wanted, LEAST_BITS))
    value = yield from of_mantissa(n, parts, inverse, fraction_bits=bits)
    value = value.promise(_most(parts, bits + value.pending))
    shift = bits + scaled - wanted
    result = yield from product(n, value, parts.entries[0], shift=shift)
    return (yield from _with_sign(n, result, sign))


def _most(parts: Mantissa, bits: int) -> int:
    """Returns a bound on 1/c with so many fraction bits: 2 for one octave, with its error 9/4."""
    return 9 << (bits + parts.octaves - 3)


def _scale_bits(n: Format, x: Arith, low: int) -> int:
    """Returns the fraction bits that make 2^(f-e-1) an integer for every exponent e of x."""
    return max(exponents(x, low).stop - n.fraction_bits, 0)


def _magnitude(
    n: Format, x: Arith, scaled: int, *, positive: bool, low: int = 0
) -> Steps[tuple[Mantissa, Arith | None]]:
    """Returns the mantissa of x with the table entry 2^(f-e-1), and the sign of x.

    The sign is None if the entry has it already, or if x is positive.
    """
    p, f = n.protocol, n.fraction_bits

    def power(e: int) -> int:
        return 1 << (f - e - 1 + scaled)

    if positive or x.numel <= FEW_ELEMENTS:
        octaves = inverse_octaves(n, x.numel) if positive else 1
        parts = yield from mantissa_of(
            *(n, x, [power]), low=low, signed=not positive, octaves=octaves, rate=-2, positive=True
        )
        return parts, None
    negative, x = yield from together(p.sign.steps(x), p.settled.steps(x))
    flip, flipped = yield from together(
        p.to_arith.steps(negative), p.inject.steps(negative, x.scaled(2))
    )
    magnitude = p.sub(x, flipped).promise(x.limit)
    sign = p.add_public(flip.scaled(-2), 1).promise(1)
    octaves = inverse_octaves(n, x.numel)
    parts = yield from mantissa_of(
        n, magnitude, [power], low=low, octaves=octaves, rate=-2, positive=True
    )
    return parts, sign


def _with_sign(n: Format, x: Arith, sign: Arith | None) -> Steps[Arith]:
    if sign is None:
        return cap(n, x)
    return cap(n, (yield from product(n, x, sign, shift=0)))


def divided(
    n: Format, a: Arith | Tensor | int, b: Arith, *, positive: bool = False, low: int = 0
) -> Steps[Arith]:
    """Returns a / b, where a may be public ring elements. Its division is pending.

    Relative error 2^-15, and two units. `low` promises |b| >= 2^low units; smaller ones count as
    that.
    """
    p, f = n.protocol, n.fraction_bits
    scaled = _scale_bits(n, b, low)
    parts, sign = yield from _magnitude(n, b, scaled, positive=positive, low=low)
    [power] = parts.entries  # 2^(f-e-1), with `scaled` fraction bits
    if sign is not None:
        power = yield from product(n, power, sign, shift=0)
    spare = n.ring.bits - 4 - f - n.range_bits
    extra = min(max(spare - f - 2, 0), 4, scaled)  # guard bits of a 2^(f-e-1)
    bits = spare - extra - (parts.octaves - 1)  # fraction bits of 1/c
    # The extra bits of a gradient `a` that are dropped, so that a 2^(f-e-1) fits the ring.
    excess = min(n.extra_bits, max(f + n.range_bits + scaled - (n.ring.bits - 2), 0))

    def shifted() -> Steps[Arith]:
        if isinstance(a, Arith):
            quotient = yield from product(
                n, a.divided(excess), power, shift=scaled - extra - excess
            )
        else:
            rounded = (a + ((1 << excess) >> 1)) >> excess
            quotient = p.mul_public(power, rounded).divided(scaled - extra - excess)
        quotient = quotient.promise(1 << (f + n.range_bits + extra + quotient.pending))
        return (yield from settle_exactly(n, quotient))

    def inverse_mantissa() -> Steps[Arith]:
        value = yield from of_mantissa(n, parts, inverse, fraction_bits=bits)
        return (yield from settle_exactly(n, value)).promise(_most(parts, bits))

    numerator, value = yield from together(shifted(), inverse_mantissa())
    return cap(n, (yield from product(n, numerator, value, shift=bits + extra)))


def divide(n: Format, a: Operand, b: Operand, *, positive: bool = False) -> Value:
    """Returns a / b as a real, for |a / b| < 2^range_bits; division by a secret zero saturates.

    A public b must not be 0; it costs a product with 1/b, or for a power of two a pending division.
    A secret b costs the rounds of `reciprocal`. `positive` promises b > 0.
    """
    if not isinstance(b, Value):
        return _by_public(n, real(n, a), b)
    dtype = result_dtype(a, b)
    b = real(n, b)
    dtype = dtype if dtype.is_floating_point else b.dtype
    if isinstance(a, Value):
        numerator: Arith | Tensor | int = cap(n, real(n, a).arith)
    else:
        plain = a if isinstance(a, SymbolicNumber) else torch.as_tensor(a)
        is_number = isinstance(plain, SymbolicNumber) or plain.dim() == 0
        if is_number and plain == 1.0:
            return convert(n, reciprocal(n, b, positive=positive), dtype)
        numerator = encode(n, plain, n.fraction_bits)
    return Value(run(n, divided, numerator, cap(n, b.arith), positive=positive), dtype)


def _by_public(n: Format, a: Value, b: Operand) -> Value:
    divisor = torch.as_tensor(b)
    require_divisor(divisor)
    dtype = result_dtype(a, b)
    if divisor.numel() == 1:
        mantissa, exponent = torch.frexp(divisor.double().abs().reshape(()))
        bits = int(exponent) - 1
        if float(mantissa) == 0.5 and 0 <= bits <= n.fraction_bits:
            shape = torch.broadcast_shapes(a.shape, divisor.shape)
            share = a.arith if a.shape == shape else a.arith.expand(*shape)
            share = n.protocol.neg(share) if float(divisor) < 0 else share
            return Value(share.divided(bits), dtype)
    return convert(n, mul(n, a, 1 / divisor.double()), dtype)
