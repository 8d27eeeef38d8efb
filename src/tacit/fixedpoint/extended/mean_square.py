"""Means of squares and their inverse roots: what the RMS norms of language models are made of.

torch has no operation for them: they come as x^2, mean, + eps, 1 / sqrt, times x. Each step keeps
what the next one needs to be precise, for small numbers as for large ones; for all others it is a
value like any. A mean has 10 fraction bits more, and is too large by a public factor (norm.py, NOTE
[sums of squares]); an inverse is fine (NOTE [fine] there).

NOTE [cubes]: the gradient of 1 / sqrt(v) has r^3, which leaves the range for small numbers and
vanishes for large ones. It waits for the x that follows: r (grad r) (x r) does neither.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod, sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...protocols import Arith
from ...protocols.steps import Steps
from ..arithmetic import mul, square
from ..conversion import settled
from ..format import cap
from ..functions.mantissa import normal
from ..functions.roots import _inverse_root, _root_of_power, _spare, _times
from ..functions.share_functions import run
from ..lazy import Deferred
from ..norm import coarse, fine_bits, times_fine
from ..reduce import Dims, dims_of
from ..value import Value

if TYPE_CHECKING:
    from ..numbers import Numbers

EXTRA_BITS = 10  # fraction bits of a mean of squares beyond those of other values; even


class Kept(Deferred):
    """A deferred value that nothing waits for: what is made of it is made at once."""

    @property
    def waits(self) -> bool:
        return False

    def also(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)


class Squares(Kept):
    """base^2."""

    base: Value

    def __init__(self, n: Numbers, base: Value) -> None:
        super().__init__(lambda: square(n, base), base.shape, base.dtype)
        self.also(base=base)


class MeanSquare(Kept):
    """raw / excess, where raw has the extra bits. The sum of the squares is below 2^(k-2-2f)."""

    raw: Arith
    excess: Fraction

    def __init__(self, n: Numbers, raw: Arith, excess: Fraction, dtype: torch.dtype) -> None:
        def make() -> Value:
            share = raw.divided(EXTRA_BITS)
            if excess == 1:
                return Value(cap(n, share), dtype)
            return mul(n, Value(cap(n, n.protocol.settled(share)), dtype), float(1 / excess))

        super().__init__(make, raw.shape, dtype)
        self.also(raw=raw, excess=excess)


class Inverse(Kept):
    """A positive number, which is also there as a fine value."""

    fine: Value

    def __init__(self, n: Numbers, fine: Value) -> None:
        super().__init__(lambda: coarse(n, fine), fine.shape, fine.dtype)
        self.also(fine=fine)


class Cube(Kept):
    """The cube of an inverse."""

    fine: Value

    def __init__(self, n: Numbers, inverse: Inverse) -> None:
        fine = inverse.fine
        super().__init__(lambda: _thrice(n, coarse(n, fine), fine, 2), fine.shape, fine.dtype)
        self.also(fine=fine)


class ByCube(Kept):
    """factor grad inverse^3; see NOTE [cubes]."""

    n: Numbers
    grad: Value
    fine: Value
    factor: float

    def __init__(self, n: Numbers, grad: Value, fine: Value, factor: float = 1.0) -> None:
        def make() -> Value:
            return mul(n, _thrice(n, grad, fine, 3), factor)

        super().__init__(make, grad.shape, grad.dtype)
        self.also(n=n, grad=grad, fine=fine, factor=factor)

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        return ByCube(self.n, self.grad.map(change), self.fine.map(change), self.factor)

    def times(self, x: Value) -> Value:
        """The product with x, each of whose factors is of the size of what goes in."""
        n = self.n
        left = mul(n, times_fine(n, self.grad, self.fine), self.factor)
        return times_fine(n, mul(n, left, times_fine(n, x, self.fine)), self.fine)


def _thrice(n: Numbers, x: Value, fine: Value, times: int) -> Value:
    for _ in range(times):
        x = settled(n, times_fine(n, x, fine))
    return x


def squares(n: Numbers, x: Value) -> Value | None:
    """x^2, if the ring has room for more."""
    return Squares(n, x) if x.is_real and n.ring.bits == 64 and n.fraction_bits >= 10 else None


def mean_square(
    n: Numbers, base: Value, dims: Dims, *, keepdim: bool, correction: int = 0
) -> MeanSquare | None:
    """The mean of base^2 over dimensions; None if there is nothing to add up. A product."""
    chosen = dims_of(base, dims)
    count = prod(base.shape[dim] for dim in chosen) - correction
    if not chosen or count < 1 or not base.shape.numel():
        return None
    power, bits = count.bit_length() - 1, n.ring.bits
    elements = settled(n, base).arith.promise(1 << (bits // 2 - 1))
    total = n.protocol.square(elements, shift=n.fraction_bits - EXTRA_BITS)
    total = total.sum(*chosen, keepdim=keepdim).promise(1 << (bits - 2)).divided(power)
    return MeanSquare(n, _ranged(n, total), Fraction(count, 1 << power), base.dtype)


def plus(n: Numbers, x: MeanSquare, summand: float) -> MeanSquare:
    """x + summand, which is positive and below 2^10."""
    units = round(summand * float(x.excess) * 2.0 ** (n.fraction_bits + EXTRA_BITS))
    return MeanSquare(n, _ranged(n, n.protocol.add_public(x.raw, units)), x.excess, x.dtype)


def _ranged(n: Numbers, x: Arith) -> Arith:
    """A mean of squares, times less than 2, is below twice the range."""
    return x.promise(1 << (n.fraction_bits + EXTRA_BITS + n.range_bits + 1 + x.pending))


def variance(
    n: Numbers, x: Value, dims: Dims, *, keepdim: bool, correction: int
) -> MeanSquare | None:
    if squares(n, x) is None or not x.shape.numel():
        return None
    centred = n.sub(x, n.mean(x, dims_of(x, dims), keepdim=True))
    return mean_square(n, centred, dims, keepdim=keepdim, correction=correction)


def root(n: Numbers, x: MeanSquare) -> Value:
    """sqrt(x). Relative error 2^-14, and 2^-13 near zero."""
    return Value(run(n, _root, n.protocol.settled(x.raw), x.excess), x.dtype)


def _root(n: Numbers, x: Arith, excess: Fraction) -> Steps[Arith]:
    spare = _spare(n)

    def power(e: int) -> int:  # sqrt(2^(e + 1 - f - 10) / excess)
        return _root_of_power(e + 1 - n.fraction_bits - EXTRA_BITS + 2 * spare, 1 / excess)

    parts = yield from normal(n, x, [power], under=0)
    return (yield from _times(n, parts, sqrt, spare))


def inverse_root(n: Numbers, x: MeanSquare) -> Inverse:
    """1 / sqrt(x). Relative error 2^-12 from 2^-12 on, and 2^-(f + 8)."""
    made = run(n, _inverse, n.protocol.settled(x.raw), x.excess)
    return Inverse(n, settled(n, Value(made, x.dtype)))


def _inverse(n: Numbers, x: Arith, excess: Fraction) -> Steps[Arith]:
    """As the inverse root of other values, without their range."""
    gain = EXTRA_BITS // 2 + fine_bits(n)
    f, spare = n.fraction_bits, _spare(n, gain)

    def power(e: int) -> int:  # 2^((f - e - 1) / 2) sqrt(excess)
        return _root_of_power(f - e - 1 + 2 * spare, excess)

    parts = yield from normal(n, x, [power])
    return (yield from _times(n, parts, _inverse_root, spare, gain))
