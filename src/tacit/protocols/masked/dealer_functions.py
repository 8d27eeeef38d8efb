"""Functions that split into a factor of m and a factor of the mask a: sines, powers (M12, M13).

x = m + a: the evaluators compute the factor of m, the dealer computes and deals the factor of a,
and one product of a public with a dealt value and one opening give the result. Floating point
touches only m and a, each of which is uniformly random, and is rounded to ring elements at once.
Integers stand for x / 2^fraction_bits, with a public number of fraction bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, e, log2

import torch
from torch import Tensor

from ...errors import ConfigError
from ...ring.deterministic import odd_harmonics, power_of_half, to_ring
from ..share import Arith
from ..steps import Steps
from .arithmetic import reshare
from .base import MaskedBase
from .deal import deal, ring_spec

# log2 of the entries of a dealt table of powers: exponents from -1 to 62.
TABLE_BITS = 6


def fourier_bytes(x: Arith, coefficients: Sequence[float], **_: float) -> int:
    """Returns the bytes that `fourier` takes for an element."""
    return 64 + 40 * len(coefficients)


def fourier(
    p: MaskedBase,
    x: Arith,
    coefficients: Sequence[float],
    *,
    period_bits: int,
    fraction_bits: int,
    tolerance: float = 0.0,
) -> Steps[Arith]:
    """Returns the sum over i of coefficients[i] sin(2 pi (2 i + 1) x / 2^period_bits) (M12).

    1 round; 2 elements dealt for each coefficient; one element each way. The division of the result
    is pending. Modulo the period the phase of x is that of m plus that of a, and sin(m + a) =
    sin m cos a + cos m sin a; the dealer deals cos a and sin a. A pending division of x makes the
    period longer. Each factor has b bits, 30 in a ring of 64 and 14 in one of 32; the sum is off by
    at most 2^-b for each coefficient, and one unit, whatever `tolerance` is.
    """
    p, x = p.in_roles_of(x), x.with_parts(x.parts)  # a copy: another call may settle x meanwhile
    period = period_bits + x.pending
    if not 1 <= period <= p.ring.bits:
        raise ConfigError(
            f"period_bits={period_bits}, {x.pending} of them pending",
            limit=f"1 to {p.ring.bits} bits with the pending ones",
        )
    count, size = len(coefficients), sum(map(abs, coefficients))
    dealt_bits, public_bits = _factor_bits(p, size, fraction_bits)

    def corrections(pads: list[Tensor]) -> list[Tensor]:
        mask, [pad] = p.whole_mask(x), pads
        for i, (sine, cosine) in enumerate(odd_harmonics(mask, period, count)):
            pad[i, 0] = to_ring(cosine, dealt_bits, mask) - pad[i, 0]
            pad[i, 1] = to_ring(sine, dealt_bits, mask) - pad[i, 1]
        return [pad]

    [[dealt, *_]] = yield from deal(p, [ring_spec(p, (count, 2, *x.shape))], corrections)

    def add_share(out: Tensor) -> None:
        m = p.opened(x)
        factors = odd_harmonics(m, period, count)
        for coefficient, (sine, cosine), [a, b] in zip(coefficients, factors, dealt, strict=True):
            out += to_ring(sine * coefficient, public_bits, m) * a
            out += to_ring(cosine * coefficient, public_bits, m) * b

    limit = int((size + count * 2.0 ** (1 - min(dealt_bits, public_bits))) * 2**dealt_bits)
    total = yield from reshare(p, x.shape, limit << public_bits, add_share)
    total = total.divided(dealt_bits + public_bits - fraction_bits)
    return total if p.exact else (yield from p.truncate.steps(total))


def exp_table(p: MaskedBase, x: Arith, *, fraction_bits: int) -> Steps[Arith]:
    """Returns e^x for -42.9 < x < 0.69, with `fraction_bits` like x; outside, garbage (M13).

    1 round, 64 elements dealt and one each way; the division of the result is pending. Error: one
    unit, and 2^-29 in a ring of 64 bits, 2^-13 in one of 32.
    e^x = 2^-u for u = -x log2(e), with as many fraction bits as the ring allows, so that nothing is
    divided before. The integer bits of m, modulo 64, select from the dealt table, which is rotated
    by the integer bits of the mask; the fractions multiply. A borrow between them cancels, because
    the table's exponents are those of the whole mask.
    """
    spare = p.ring.bits - TABLE_BITS - fraction_bits
    if spare - x.pending < min(fraction_bits, 16):
        x = yield from p.settled.steps(x)
    p, x = p.in_roles_of(x), x.with_parts(x.parts)  # a copy: another call may settle x meanwhile
    extra = min(spare - x.pending, 28)
    bits, scale = fraction_bits + x.pending + extra, -round(log2(e) * 2**extra)
    dealt_bits, public_bits = _factor_bits(p, 4.0, fraction_bits)
    shape, entries = tuple(x.shape), 1 << TABLE_BITS

    def corrections(pads: list[Tensor]) -> list[Tensor]:
        table = _rotated_table(-(p.whole_mask(x) * scale), bits, dealt_bits)
        return [table.sub_(pads[0])]

    [[table, *_]] = yield from deal(p, [ring_spec(p, (entries, *shape))], corrections)

    def add_share(out: Tensor) -> None:
        whole, fraction = _split(p.opened(x) * scale, bits)
        chosen = table.gather(0, whole.unsqueeze(0)).squeeze(0)
        out += to_ring(power_of_half(fraction, bits), public_bits, out) * chosen

    total = yield from reshare(p, shape, 4 << (dealt_bits + public_bits), add_share)
    total = total.divided(dealt_bits + public_bits - fraction_bits)
    total = total.promise(2 << (dealt_bits + public_bits))
    return total if p.exact else (yield from p.truncate.steps(total))


def _split(u: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """The bits above the binary point, modulo the size of the table, and the bits below it."""
    whole = (u >> bits) & ((1 << TABLE_BITS) - 1)
    return whole.to(torch.int64), u & ((1 << bits) - 1)


def _rotated_table(mask: Tensor, bits: int, table_bits: int) -> Tensor:
    """Entry (j + integer of the mask) mod 64 is 2^(fraction of the mask - j), -1 <= j <= 62."""
    whole, fraction = _split(mask, bits)
    power = power_of_half((1 << bits) - fraction, bits) * 2
    table = torch.zeros((1 << TABLE_BITS, *mask.shape), dtype=mask.dtype, device=mask.device)
    for j in range(-1, min((1 << TABLE_BITS) - 1, table_bits + 2)):
        place = (whole + j) & ((1 << TABLE_BITS) - 1)
        table.scatter_(0, place.unsqueeze(0), to_ring(power, table_bits - j, mask).unsqueeze(0))
    return table


def _factor_bits(p: MaskedBase, size: float, fraction_bits: int) -> tuple[int, int]:
    """The bits of the dealt and of the public factor of a product of at most `size`.

    The product stays below 2^(k-2), so that its exact division is right. If the division is
    probabilistic, the product has only 2 f + 6 bits: it fails with probability 2^(2 f + 6 - k).
    """
    bits = p.ring.bits - 3 - ceil(log2(max(size, 1.0)))
    if not p.exact:
        bits = min(bits, 2 * fraction_bits + 6)
    return bits // 2, bits - bits // 2
