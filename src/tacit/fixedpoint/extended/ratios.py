"""Ratios of fine values that wait for the gradient they multiply: see fine.py.

Adadelta's sqrt(d) / sqrt(v) and RAdam's 1 / sqrt(v) are far below a unit for large gradients, or
beyond the range for small ones; times a gradient they are steps of an ordinary size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ...protocols import Arith
from ...protocols.steps import Steps
from ..format import encode
from ..functions.quotient import divide, divided
from ..functions.share_functions import product, run
from ..value import Operand, Value
from .mean_square import Kept
from .moments import GRADIENT_BITS, ROOT_BITS, SQUARE_BITS, Fine, _raw, clipped, quotient

if TYPE_CHECKING:
    from ..numbers import Numbers


class Ratio(Kept):
    """factor above / below, where `above` may be one."""

    above: Fine | None
    below: Fine
    factor: float

    def __init__(self, n: Numbers, above: Fine | None, below: Fine, factor: float = 1.0) -> None:
        def make() -> Value:
            found = divide(n, 1.0 if above is None else above, below, positive=True)
            return found if factor == 1 else n.mul(found, factor)

        super().__init__(make, below.shape, below.dtype)
        self.also(above=above, below=below, factor=factor)


def times(n: Numbers, ratio: Ratio, gradient: Value) -> Value:
    """The ratio times a gradient or an average of gradients."""
    if ratio.above is None:
        found = quotient(n, gradient, ratio.below)
    else:
        found = _step(n, ratio.above, ratio.below, gradient)
    return found if ratio.factor == 1 else n.mul(found, ratio.factor)


def _step(n: Numbers, above: Fine, below: Fine, gradient: Value) -> Fine:
    """gradient above / below, which is promised to be below 2^5, with 26 fraction bits."""
    raw = run(n, _fine_quotient, above.raw, clipped(n, gradient), below.raw)
    raw = n.protocol.settled(raw).promise(1 << (ROOT_BITS + GRADIENT_BITS))
    return Fine(n, raw, ROOT_BITS, gradient.dtype)


def _fine_quotient(n: Numbers, above: Arith, gradient: Arith, below: Arith) -> Steps[Arith]:
    """With the bits that a quotient lacks given to its numerator."""
    shift = n.fraction_bits - (ROOT_BITS - n.fraction_bits)
    numerator = yield from product(n, above, gradient, shift=max(shift, 0))
    numerator = yield from n.protocol.settled.steps(numerator)
    wide = numerator.scaled(1 << max(-shift, 0))
    return (yield from divided(n, wide, below, positive=True))


def plus(n: Numbers, x: Operand, summand: float) -> Fine:
    """x + summand for an average of squares, with 40 fraction bits."""
    x = n.operand(x)
    least = max(round(summand * 2.0**SQUARE_BITS), 1)
    raw = n.protocol.add_public(_raw(n, x, SQUARE_BITS), least)
    return Fine(n, raw.promise(1 << (SQUARE_BITS + 2 * GRADIENT_BITS)), SQUARE_BITS, x.dtype)


def public_root(n: Numbers, x: Tensor) -> Fine:
    """The root of public numbers, with 26 fraction bits."""
    raw = n.protocol.public(encode(n, x.double().sqrt(), ROOT_BITS))
    return Fine(n, raw, ROOT_BITS, x.dtype)


def largest(n: Numbers, old: Operand, size: Value) -> Fine:
    """The larger of a fine value and the size of a gradient, and a quarter of a unit."""
    p, least = n.protocol, 1 << (ROOT_BITS - n.fraction_bits - 2)
    wide = clipped(n, size).scaled(1 << (ROOT_BITS - n.fraction_bits))
    raw = p.maximum(_raw(n, old, ROOT_BITS), p.add_public(wide, least))
    raw = raw.promise(1 << (ROOT_BITS + GRADIENT_BITS))
    return Fine(n, raw, ROOT_BITS, size.dtype)
