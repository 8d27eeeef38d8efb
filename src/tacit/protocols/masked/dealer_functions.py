"""Functions that split into a factor of m and a factor of the mask a: sines, powers (M12, M13).

x = m + a: the evaluators compute the factor of m, the dealer computes and deals the factor of a,
and one product of a public with a dealt value and one opening give the result. Floating point
touches only m and a, each of which is uniformly random, and is rounded to ring elements at once.
Integers stand for x / 2^fraction_bits, with a public number of fraction bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, e, log2

from torch import Tensor

from ...errors import ConfigError
from ...kernels.powers_of_two import WHOLE_BITS, add_power, deal_powers, table_entries
from ...kernels.waves import add_wave_sum, deal_waves
from ..share import Arith
from ..steps import Steps
from .arithmetic import open_share, reshare
from .base import MaskedBase
from .deal import deal, deal_with_masks, ring_spec

# Of the integer bits of an exponent, the lowest that do not select an entry, where factors have
# bits to spare; each with the fraction bits up to which its error is at most an eighth of a unit.
STEPS = ((4, 18), (3, 22))
FINE_STEP = 2
# The factors of a sum of sines have so many bits more than its error needs: it is 2^-ERROR_BITS of
# a unit for the dealt factors, and for the public ones. More would leave less room for sums.
ERROR_BITS = 5


def fourier_bytes(x: Arith, coefficients: Sequence[float], **_: object) -> int:
    """Returns the bytes that `fourier` takes for an element."""
    return 64 + 72 * len(coefficients)


def fourier(
    p: MaskedBase,
    x: Arith,
    coefficients: Sequence[float],
    *,
    period_bits: int,
    fraction_bits: int,
    tolerance: float = 0.0,
    factor: Arith | None = None,
    cosines: Sequence[float] = (),
) -> Steps[Arith]:
    """Returns the sum over i of coefficients[i] sin(2 pi (2 i + 1) x / 2^period_bits) (M12).

    `cosines`, if given, has as many coefficients of cosines of the same phases, which are added at
    no cost. With a factor, of the shape of x, the sum times that integer. 1 round; 2 elements dealt
    for each phase, 4 with a factor; one element each way. The division of the result is pending.
    The sum is off by one unit, and by a 16th or 2^-b for each coefficient, whatever `tolerance` is:
    see `SineSum`.
    """
    if factor is not None:
        factor = yield from p.settled.steps(factor)
    sines = SineSum(p, x, coefficients, period_bits, fraction_bits, factor, cosines)
    [masks], [dealt] = yield from deal_with_masks(
        sines.p, (sines.element,), (sines.dealt,), lambda _, pads: [sines.corrections(pads[0])]
    )
    message = None if sines.p.is_dealer else sines.message(masks[0], dealt[0])
    total = yield from open_share(sines.p, message, sines.element, masks, sines.limit)
    total = total.divided(sines.shift)
    if p.exact:
        return total
    # With a factor the sum is large: a probabilistic division would often fail.
    return (yield from p.truncate.steps(total, exact=factor is not None))


class SineSum:
    """A sum of odd harmonics of x, times an optional factor y, in parts (M12).

    Modulo the period the phase of x is that of m plus that of a, and
        sin(m + a) = sin m cos a + cos m sin a,  cos(m + a) = cos m cos a - sin m sin a;
    the dealer deals cos a and sin a. With y = n + c, where the dealer knows c, it also
    deals c cos a and c sin a, and y cos a = n cos a + c cos a. A pending division of x makes the
    period longer. sin and cos have b bits: up to 30 in a ring of 64 and 14 in one of 32, less half
    of those of the factor; without one, no more than a result within 2^-(ERROR_BITS - 1) of a unit
    needs. `shift`: by how many bits the opened sum is to be divided.
    """

    def __init__(
        self,
        p: MaskedBase,
        x: Arith,
        coefficients: Sequence[float],
        period_bits: int,
        fraction_bits: int,
        factor: Arith | None = None,
        cosines: Sequence[float] = (),
    ) -> None:
        self.p, self.x = p.in_roles_of(x), x.with_parts(x.parts)  # another call may settle x
        self.coefficients, self.factor = coefficients, factor
        self.cosines = cosines or [0.0] * len(coefficients)
        self.period = period_bits + x.pending
        if not 1 <= self.period <= p.ring.bits:
            raise ConfigError(
                f"period_bits={period_bits}, {x.pending} of them pending",
                limit=f"1 to {p.ring.bits} bits with the pending ones",
            )
        count, size = len(coefficients), sum(map(abs, (*coefficients, *cosines)))
        largest = 1 if factor is None else factor.limit
        self.dealt_bits, self.public_bits = _factor_bits(p, size * largest, fraction_bits)
        if factor is None:
            self.dealt_bits = min(self.dealt_bits, fraction_bits + ERROR_BITS + _bits_of(size))
            self.public_bits = min(self.public_bits, fraction_bits + ERROR_BITS + _bits_of(count))
        least = min(self.dealt_bits, self.public_bits)
        largest_sum = int((size + count * 2.0 ** (1 - least)) * 2**self.dealt_bits)
        self.limit = largest_sum * largest << self.public_bits
        self.shift = self.dealt_bits + self.public_bits - fraction_bits
        self.element = ring_spec(p, x.shape)
        self.dealt = ring_spec(p, (count, 2 if factor is None else 4, *x.shape))

    def corrections(self, pad: Tensor) -> Tensor:
        """At the dealer: the pad, replaced by what is sent."""
        c = None if self.factor is None else self.p.whole_mask(self.factor)
        v, bits = self.p.whole_mask(self.x), self.dealt_bits
        return deal_waves(v, pad, period_bits=self.period, fraction_bits=bits, factor=c)

    def message(self, mask: Tensor, dealt: Tensor) -> Tensor:
        """At an evaluator: its share of the sum minus its mask, s_i - z_i."""
        if self.factor is not None:
            dealt = dealt[:, :2] * self.p.opened(self.factor) + dealt[:, 2:]
        return add_wave_sum(
            -mask,
            self.p.opened(self.x),
            dealt,
            period_bits=self.period,
            fraction_bits=self.public_bits,
            sines=self.coefficients,
            cosines=self.cosines,
        )


def exp_table(p: MaskedBase, x: Arith, *, fraction_bits: int, extra: int = 0) -> Steps[Arith]:
    """Returns e^x for -33.2 < x < 0.69, with `fraction_bits` like x; outside, garbage (M13).

    The last `extra` of them only keep roundings small, and need not be right. 1 round and one
    element each way; the division of the result is pending. Dealt: 16 elements; 8 for up to 22
    fraction bits without the extra ones; 4 for up to 18, which are right only for -22.1 < x; and 64
    in a small ring, and with probabilistic divisions. Error: one unit, and 2^-27 with 16 elements,
    2^-25 with 8, 2^-21 with 4, 2^-13 in a ring of 32 bits. e^x = 2^-u for u = -x log2(e), with as
    many fraction bits as the ring allows, so that nothing is divided before. The high integer bits
    of m select from the dealt table, which is rotated by those of the mask; the rest of both
    multiply. A borrow between them cancels, because the table's exponents are those of the whole
    mask.
    """
    spare = p.ring.bits - WHOLE_BITS - fraction_bits
    if spare - x.pending < min(fraction_bits, 16):
        x = yield from p.settled.steps(x)
    p, x = p.in_roles_of(x), x.with_parts(x.parts)  # a copy: another call may settle x meanwhile
    more = min(spare - x.pending, 28)
    bits, scale = fraction_bits + x.pending + more, -round(log2(e) * 2**more)
    dealt_bits, public_bits, step = _table_bits(p, fraction_bits, extra)
    shape, entries = tuple(x.shape), table_entries(step)

    def corrections(pads: list[Tensor]) -> list[Tensor]:
        v = -(p.whole_mask(x) * scale)
        return [deal_powers(v, pads[0], bits=bits, step=step, table_bits=dealt_bits)]

    [[table, *_]] = yield from deal(p, [ring_spec(p, (entries, *shape))], corrections)

    def add_share(out: Tensor) -> None:
        m = p.opened(x) * scale
        add_power(out, m, table, bits=bits, step=step, public_bits=public_bits)

    total = yield from reshare(p, shape, 4 << (dealt_bits + public_bits), add_share)
    total = total.divided(dealt_bits + public_bits - fraction_bits)
    total = total.promise(2 << (dealt_bits + public_bits))
    return total if p.exact else (yield from p.truncate.steps(total))


def _table_bits(p: MaskedBase, fraction_bits: int, extra: int) -> tuple[int, int, int]:
    """The bits of the dealt and of the public factor, and of the exponents that share an entry.

    A dealt power is up to 2^(2^step) then, and the public one has as many bits more: so both have
    the same part in the error.
    """
    dealt, public = _factor_bits(p, 4.0, fraction_bits)
    step = table_step(p.ring.bits, fraction_bits - extra, exact=p.exact)
    more = (1 << step) // 2
    return dealt - more, public + more, step


def table_step(ring_bits: int, fraction_bits: int, *, exact: bool) -> int:
    """Returns the bits of the exponents that share an entry: factors of a small ring have few."""
    if not exact or ring_bits < 64:
        return 0
    return next((step for step, most in STEPS if fraction_bits <= most), FINE_STEP)


def _factor_bits(p: MaskedBase, size: float, fraction_bits: int) -> tuple[int, int]:
    """The bits of the dealt and of the public factor of a product of at most `size`.

    The product stays below 2^(k-2), so that its exact division is right. If the division is
    probabilistic, the product has only 2 f + 6 bits: it fails with probability 2^(2 f + 6 - k).
    """
    bits = p.ring.bits - 3 - _bits_of(size)
    if not p.exact:
        bits = min(bits, 2 * fraction_bits + 6)
    return bits // 2, bits - bits // 2


def _bits_of(size: float) -> int:
    """Returns the bits before the binary point of a number up to `size`."""
    return ceil(log2(max(size, 1.0)))
