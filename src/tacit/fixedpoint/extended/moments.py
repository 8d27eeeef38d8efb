"""Averages of gradients and of their squares, with more fraction bits than other values.

Adam, RMSprop and Adagrad divide a gradient by the root of an average of its squares. The square of
2^-9 is less than 2^-16: with 16 fraction bits it would be zero, and the quotient enormous. So the
squares keep 40 fraction bits, their roots and the averages 26, as long as an optimizer has them;
for all others they are values like any. NOTE [gradients]: what these optimizers see is clipped to
2^5; and as a gradient has no more than f fraction bits, a root counts as 2^-f at least: steps for
gradients of a few units are smaller than in plain, not random.
"""

from __future__ import annotations

from math import frexp, isqrt, sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...protocols import Arith
from ...protocols.steps import Steps
from ..format import cap, encode
from ..functions.mantissa import normal, polynomial
from ..functions.quotient import divided
from ..functions.share_functions import product, run
from ..lazy import Deferred
from ..value import Operand, Value

if TYPE_CHECKING:
    from ..numbers import Numbers

SQUARE_BITS = 40  # fraction bits of squares
ROOT_BITS = 26  # and of their roots
MANTISSA_BITS = 24
GRADIENT_BITS = 5  # gradients are clipped to less than 2^5
FACTOR_BITS = 11  # of a public factor: |factor| 2^b < 2^11
RING_BITS = 64


class Fine(Deferred):
    """A value that is also there with `places` fraction bits, as `raw`."""

    raw: Arith
    places: int

    def __init__(self, n: Numbers, raw: Arith, places: int, dtype: torch.dtype) -> None:
        def coarse() -> Value:
            share = n.protocol.settled(raw.divided(places - n.fraction_bits))
            return Value(cap(n, share), dtype)

        super().__init__(coarse, raw.shape, dtype)
        object.__setattr__(self, "raw", raw)
        object.__setattr__(self, "places", places)

    @property
    def waits(self) -> bool:
        """No: what an optimizer makes of it is made at once, of `raw`."""
        return False


def is_fine(n: Numbers) -> bool:
    """Whether the ring has room for squares of gradients."""
    return n.ring.bits == RING_BITS and 10 <= n.fraction_bits <= SQUARE_BITS // 2


def add_square(n: Numbers, total: Operand, gradient: Value, factor: float) -> Fine:
    """total + factor gradient^2, which is promised to be below 2^10."""
    p, added = n.protocol, _times(n, _square(n, gradient), factor)
    if isinstance(total, Tensor):
        raw = p.add_public(added, encode(n, total, SQUARE_BITS))
    else:
        raw = p.add(_raw(n, total, SQUARE_BITS), added)
    raw = raw.promise(1 << (SQUARE_BITS + 2 * GRADIENT_BITS))
    return Fine(n, raw, SQUARE_BITS, gradient.dtype)


def _square(n: Numbers, x: Value) -> Arith:
    """x^2 with 40 fraction bits."""
    p = n.protocol
    if isinstance(x, Fine) and x.places == ROOT_BITS:
        return p.settled(p.square(p.settled(x.raw.divided(ROOT_BITS - SQUARE_BITS // 2))))
    square = p.settled(p.square(clipped(n, x)))
    return square.scaled(1 << (SQUARE_BITS - 2 * n.fraction_bits))


def clipped(n: Numbers, gradient: Value) -> Arith:
    """The gradient within 2^5. It is kept: an optimizer asks for it twice."""
    found = gradient.kept.get("clipped")
    if found is None:
        end = (1 << (n.fraction_bits + GRADIENT_BITS)) - 1
        share = n.protocol.clip(cap(n, gradient.arith), -end, end).promise(end)
        found = gradient.kept["clipped"] = Value(share, gradient.dtype)
    return found.arith


def _raw(n: Numbers, x: Operand, places: int) -> Arith:
    """x with this many fraction bits."""
    if isinstance(x, Fine) and x.places == places:
        return x.raw
    return n.protocol.settled(n.operand(x).arith).scaled(1 << (places - n.fraction_bits))


def _times(n: Numbers, x: Arith, factor: float) -> Arith:
    """factor x, with 11 bits of the factor. 1 round, none for whole factors that are small."""
    if factor in (1.0, -1.0):
        return x.scaled(int(factor))
    bits = FACTOR_BITS - frexp(factor)[1]
    whole = x.scaled(round(factor * 2.0**bits))
    return n.protocol.settled(whole.divided(bits)) if bits > 0 else whole.scaled(1 << -bits)


def scaled(n: Numbers, x: Fine, factor: float) -> Fine:
    """factor x. A factor near one is one minus a small one, which is precise."""
    if 0.5 < factor < 1:
        raw = n.protocol.sub(x.raw, _times(n, x.raw, 1 - factor)).promise(x.raw.limit)
    else:
        raw = _times(n, x.raw, factor)
    return Fine(n, raw, x.places, x.dtype)


def corrected(n: Numbers, x: Fine, factor: float) -> Fine:
    """factor x, for an average of squares that began with 0: it is an average without it."""
    end = 1 << (SQUARE_BITS + 2 * GRADIENT_BITS)
    small = x.raw.promise(max(int(end / factor), 1))
    return Fine(n, _times(n, small, factor).promise(end), x.places, x.dtype)


def average(n: Numbers, mean: Operand, gradient: Value, weight: float) -> Fine:
    """mean + weight (gradient - mean), with 26 fraction bits: small means would stick otherwise."""
    p = n.protocol
    wide = clipped(n, gradient).scaled(1 << (ROOT_BITS - n.fraction_bits))
    if isinstance(mean, Tensor):
        raw = p.add_public(_times(n, wide, weight), encode(n, mean * (1 - weight), ROOT_BITS))
    else:
        old = _raw(n, mean, ROOT_BITS)
        raw = p.add(old, _times(n, p.sub(wide, old), weight))
    return Fine(n, raw.promise(1 << (ROOT_BITS + GRADIENT_BITS)), ROOT_BITS, gradient.dtype)


def larger(n: Numbers, a: Fine, b: Fine) -> Fine:
    """The larger of two, element by element."""
    return Fine(n, n.protocol.maximum(a.raw, b.raw), a.places, a.dtype)


def root(n: Numbers, x: Fine) -> Fine:
    """The square root, with 26 fraction bits."""
    return Fine(n, n.protocol.settled(run(n, _root, x.raw)), ROOT_BITS, x.dtype)


def _root(n: Numbers, x: Arith) -> Steps[Arith]:
    """x = c 2^(e+1-40) has the root sqrt(c) 2^((e+1)/2 - 20)."""

    def power(e: int) -> int:
        return isqrt(1 << (e + 1 + 2 * ROOT_BITS - SQUARE_BITS))

    parts = yield from normal(n, x, [power], under=0)
    value = yield from polynomial(n, parts, sqrt, fraction_bits=MANTISSA_BITS)
    value = value.promise(2 << (MANTISSA_BITS + value.pending))
    result = yield from product(n, value, parts.entries[0], shift=MANTISSA_BITS)
    return result.promise(1 << (ROOT_BITS + GRADIENT_BITS + 1 + result.pending))


def plus(n: Numbers, x: Fine, summand: float) -> Fine:
    """max(x, 2^-f) + summand."""
    p, least = n.protocol, 1 << (x.places - n.fraction_bits)
    above = p.relu(p.add_public(x.raw, -least))
    raw = p.add_public(above, least + round(summand * 2.0**x.places)).promise(x.raw.limit + least)
    return Fine(n, raw, x.places, x.dtype)


def quotient(n: Numbers, a: Value, b: Fine) -> Value:
    """a / b for a gradient, or an average of gradients, and b > 0."""
    if isinstance(a, Fine) and a.places == b.places:
        above = a.raw
    else:
        above = clipped(n, a).scaled(1 << (b.places - n.fraction_bits))
    return Value(run(n, divided, above, b.raw, positive=True), a.dtype)
