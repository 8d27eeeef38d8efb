"""Means of squares and their inverse roots: the parts of the RMS norms of language models.

An RMS norm has no operator of its own in torch: it arrives as x^2, mean, + eps, 1 / sqrt, times x.
Each result keeps what the next operation needs to be precise, for small numbers as for large ones;
for every other operation it is an ordinary value. A mean has 10 extra fraction bits and is too
large by a public factor (norm.py, NOTE [sums of squares]); an inverse root is extended (NOTE
[extended] there).

NOTE [cubes]: the gradient of 1 / sqrt(v) contains r^3 for r = 1 / sqrt(v), which leaves the range
for small numbers and vanishes for large ones. So the product with r^3 is delayed until the factor x
arrives: r (grad r) (x r) stays in the range.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import prod

import torch
from torch import Tensor

from ...protocols import Arith
from ...protocols.steps import Steps
from ..arithmetic import mul, square, sub
from ..format import Format, cap
from ..functions import roots
from ..functions.mantissa import mantissa_of, root_octaves
from ..functions.roots import function_times_entry, root_of_power, table_bits
from ..functions.share_functions import run
from ..lazy import LazyValue
from ..long_sum import long_sum
from ..norm import extended_bits, mul_extended, round_extended, scale_gradient
from ..reduce import Dims, dims_of, mean
from ..value import Value, settled

EXTRA_BITS = 10  # fraction bits of a mean of squares beyond those of other values; even


class Square(LazyValue):
    """base^2."""

    def __init__(self, n: Format, base: Value) -> None:
        super().__init__(lambda: square(n, base), base.shape, base.dtype)
        self.base = base


class MeanSquare(LazyValue):
    """raw / excess, where raw has the extra bits. Each square is below 2^(k-2-2f)."""

    def __init__(self, n: Format, raw: Arith, excess: Fraction, dtype: torch.dtype) -> None:
        def rounded() -> Value:
            share = raw.divided(EXTRA_BITS)
            if excess == 1:
                return Value(cap(n, share), dtype)
            return mul(n, Value(cap(n, n.protocol.settled(share)), dtype), float(1 / excess))

        super().__init__(rounded, raw.shape, dtype)
        self.raw, self.excess = raw, excess


class InverseRoot(LazyValue):
    """1 / sqrt(x) > 0, which also exists as a extended value."""

    def __init__(self, n: Format, extended: Value) -> None:
        super().__init__(lambda: round_extended(n, extended), extended.shape, extended.dtype)
        self.extended = extended


class CubedInverseRoot(LazyValue):
    """The cube of an inverse root."""

    def __init__(self, n: Format, inverse: InverseRoot) -> None:
        extended = inverse.extended

        def cube() -> Value:
            return _times_power(n, round_extended(n, extended), extended, 2)

        super().__init__(cube, extended.shape, extended.dtype)
        self.extended = extended


class GradientTimesCube(LazyValue):
    """factor grad inverse^3; see NOTE [cubes]."""

    def __init__(self, n: Format, grad: Value, extended: Value, factor: float = 1.0) -> None:
        def product() -> Value:
            return mul(n, _times_power(n, grad, extended, 3), factor)

        super().__init__(product, grad.shape, grad.dtype)
        self.n, self.grad, self.extended, self.factor = n, grad, extended, factor

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        return GradientTimesCube(
            self.n, self.grad.map(change), self.extended.map(change), self.factor
        )

    def times(self, x: Value) -> Value:
        """The product with x, computed so that no factor is larger than what goes in."""
        n = self.n
        left = mul(n, scale_gradient(n, self.grad, self.extended), self.factor)
        normal = mul_extended(n, x, self.extended)
        return scale_gradient(n, mul(n, left, normal), self.extended)


def _times_power(n: Format, x: Value, extended: Value, power: int) -> Value:
    for _ in range(power):
        x = settled(n, scale_gradient(n, x, extended))
    return x


def lazy_square(n: Format, x: Value) -> Value | None:
    """x^2 as a lazy value, or None if the ring has no room for more fraction bits."""
    return Square(n, x) if x.is_real and n.ring.bits == 64 and n.fraction_bits >= 10 else None


def mean_square(
    n: Format, base: Value, dims: Dims, *, keepdim: bool, correction: int = 0
) -> MeanSquare | None:
    """The mean of base^2 over dimensions; None if there is nothing to add up. A product."""
    chosen = dims_of(base, dims)
    count = prod(base.shape[dim] for dim in chosen) - correction
    if not chosen or count < 1 or not base.shape.numel():
        return None
    power, bits = count.bit_length() - 1, n.ring.bits
    elements = settled(n, base).arith.promise(1 << (bits // 2 - 1))
    total = n.protocol.square(elements, shift=n.fraction_bits - EXTRA_BITS)
    extra = n.fraction_bits + EXTRA_BITS
    total = long_sum(n, total, chosen, fraction_bits=extra, keepdim=keepdim)
    total = total.promise(1 << (bits - 2)).divided(power)
    return MeanSquare(n, _ranged(n, total), Fraction(count, 1 << power), base.dtype)


def plus(n: Format, x: MeanSquare, summand: float) -> MeanSquare:
    """x + summand, which is positive and below 2^10."""
    units = round(summand * float(x.excess) * 2.0 ** (n.fraction_bits + EXTRA_BITS))
    return MeanSquare(n, _ranged(n, n.protocol.add_public(x.raw, units)), x.excess, x.dtype)


def _ranged(n: Format, x: Arith) -> Arith:
    """A mean of squares, times less than 2, is below twice the range."""
    return x.promise(1 << (n.fraction_bits + EXTRA_BITS + n.range_bits + 1 + x.pending))


def variance(
    n: Format, x: Value, dims: Dims, *, keepdim: bool, correction: int
) -> MeanSquare | None:
    if lazy_square(n, x) is None or not x.shape.numel():
        return None
    centred = sub(n, x, mean(n, x, dims_of(x, dims), keepdim=True))
    return mean_square(n, centred, dims, keepdim=keepdim, correction=correction)


def root(n: Format, x: MeanSquare) -> Value:
    """sqrt(x). Relative error 2^-14, and 2^-13 near zero."""
    return Value(run(n, _root, n.protocol.settled(x.raw), x.excess), x.dtype)


def _root(n: Format, x: Arith, excess: Fraction) -> Steps[Arith]:
    entry_bits = table_bits(n)

    def power(e: int) -> int:  # sqrt(2^(e + 1 - f - 10) / excess)
        return root_of_power(e + 1 - n.fraction_bits - EXTRA_BITS + 2 * entry_bits, 1 / excess)

    octaves = root_octaves(n)
    parts = yield from mantissa_of(n, x, [power], under=0, octaves=octaves, rate=1, positive=True)
    return (yield from function_times_entry(n, parts, Decimal.sqrt, entry_bits))


def inverse_root(n: Format, x: MeanSquare) -> InverseRoot:
    """1 / sqrt(x). Relative error 2^-12 from 2^-12 on, and 2^-(f + 8)."""
    gain = EXTRA_BITS // 2 + extended_bits(n)
    made = run(n, roots.inverse_root, x.raw, gain=gain, excess=x.excess)
    return InverseRoot(n, settled(n, Value(made, x.dtype)))
