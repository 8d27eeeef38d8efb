"""Gradients on their way back through a network, with extra fraction bits.

A loss is a mean: the gradient of each output is 1/N of what it would be alone, and a pooling or a
norm divides it again. With 16 fraction bits little of it would be left at the first layers.

NOTE [fine gradients]: every step of a backward pass is linear in its gradient. So a gradient can be
carried as an ordinary value that is 2^s times larger; each rule computes with it as usual, in a
range of s bits more, and the result is 2^s times too large again. The factor is public and costs
nothing: it joins the division that a product needs anyway, when an operation that is not linear
reads the gradient, or an optimizer does. This is loss scaling, as trainings with 16-bit floats do
it, inside the format.

The first gradient of a backward pass is public (ones). It is a `Seed`, and what it makes of secrets
is a `FineGradient`. The rules are in tensor/ops/extended/fine_gradients.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from torch import Tensor

from ...protocols import Arith, Bool
from ..format import Format, cap
from ..lazy import LazyValue
from ..value import Value

MOST_BITS = 8  # the extra fraction bits of a gradient, if the ring has room for them


def gradient_bits(n: Format) -> int:
    """Returns the extra fraction bits of gradients: what the ring can hold beyond the range."""
    return max(min(MOST_BITS, n.most_range_bits - n.range_bits), 0)


@dataclass(frozen=True)
class Seed(Value):
    """A public gradient, from which a backward pass starts."""

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        return seed(super().map(change))


def seed(x: Value) -> Seed:
    """Returns public numbers as a gradient from which a backward pass starts."""
    return Seed(x.share, x.dtype, x.saved, x.known)


class FineGradient(LazyValue):
    """raw / 2^s, where s is `gradient_bits`. Once something reads it, it is an ordinary value.

    raw: of any kind, so that what a rule delays stays delayed.
    """

    def __init__(self, n: Format, raw: Value) -> None:
        def rounded() -> Value:
            return Value(cap(n, raw.arith.divided(gradient_bits(n))), raw.dtype)

        super().__init__(rounded, raw.shape, raw.dtype)
        self.n, self.raw = n, raw

    @property
    def is_fine(self) -> bool:
        """Whether the extra bits are still there: nothing has divided by 2^s yet."""
        return self._computed is None

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        if self.is_fine:
            return FineGradient(self.n, self.raw.map(change))
        return self.computed().map(change)


def is_fine(x: object) -> TypeGuard[FineGradient]:
    """Returns whether x is a gradient that still has its extra bits."""
    return isinstance(x, FineGradient) and x.is_fine


def larger(n: Format, x: Value) -> Value:
    """Returns a real times 2^s, by leaving out bits of a pending division if possible. Local."""
    bits = gradient_bits(n)
    left_out = min(bits, x.arith.pending)
    return Value(x.arith.divided(-left_out).scaled(1 << (bits - left_out)), x.dtype)


def full_share(n: Format, x: Value) -> tuple[Arith | Bool, int]:
    """Returns the share of a value with the extra bits it still has, and its fraction bits."""
    if is_fine(x):
        return x.raw.arith, n.fraction_bits + gradient_bits(n)
    return x.bits if x.is_bit else x.arith, n.bits_of(x.dtype)
