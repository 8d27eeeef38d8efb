"""Optimizers' averages of gradients and of their squares, with extra fraction bits.

Adam, RMSprop and Adagrad divide a gradient by the root of an average of its squares. The square of
2^-9 is less than 2^-16: with 16 fraction bits it would be zero, and the quotient enormous. So the
squares have 40 fraction bits, their roots and the averages of gradients 26, while an optimizer
computes with them; for every other reader they are ordinary values.

NOTE [gradients]: gradients are clipped to 2^5 before they are squared or divided by a root. They
have 20 fraction bits if they come from a backward pass (fine_gradients.py), so that squares need no
division, and f otherwise. A root counts as 2^-f at least, because a thousandth of a smaller square,
which Adam adds to its average, would be less than 2^-40: for gradients of less than a unit the
steps are smaller than those of plain torch, not random. With an eps of more than 16 units they are
those of plain torch.

NOTE [steps]: what may be clipped is known from the operands. While `Optimizer.step` runs, the
gradients of its parameters are of the kind `Gradient` (see tacit.tensor.optimizer_hooks); what is
computed of them carries the same `OptimizerStep`. When the step has ended, all of them behave like
ordinary values again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from ...protocols import Arith
from ...protocols.steps import Steps
from ..arithmetic import mul
from ..encoding import encode
from ..format import Format, cap
from ..functions.mantissa import has_waves, mantissa_of, of_mantissa, root_octaves
from ..functions.quotient import divide, divided
from ..functions.share_functions import product, run
from ..lazy import LazyValue
from ..symbolic import decided, exponent
from ..value import Operand, Value, operand
from .fine_gradients import gradient_bits, is_fine
from .lazy_roots import RootParts, divided_by_root

SQUARE_BITS = 40  # fraction bits of squares
ROOT_BITS = 26  # of roots of squares, and of averages of gradients
MANTISSA_BITS = 24
GRADIENT_BITS = 5  # gradients are clipped to less than 2^5
FACTOR_BITS = 11  # of a public factor: |factor| 2^b < 2^11
RING_BITS = 64
GROWTHS = (1, 5, 6)  # bits by which a factor makes a root grow at most
LARGEST_ROOT = 257 << (ROOT_BITS + GRADIENT_BITS - 8)  # of an average of clipped squares
LEAST_SUMMAND = 16  # units of 2^-f: with so much added, roots need not count as one at least
LARGEST_GROWN = 1 << (ROOT_BITS + GRADIENT_BITS + 2)  # what a factor may make grow so


@dataclass(eq=False)
class OptimizerStep:
    """A running call of `Optimizer.step`.

    optimizer: the optimizer's class. clips: averages of gradients are made of clipped ones, which
    is cheaper; only torch's own optimizers are known to divide them by a root afterwards.
    joined: gradients, and one vector of all of them, by their identities (see joint_vectors.py).
    """

    optimizer: type
    clips: bool
    active: bool = True
    joined: dict[tuple[int, ...], tuple[Sequence[Gradient], Gradient]] = field(
        default_factory=dict, repr=False
    )

    def end(self) -> None:
        """Lets its gradients and averages behave like ordinary values."""
        self.active = False
        self.joined.clear()


@dataclass(frozen=True)
class Gradient(Value):
    """The gradient of a parameter while an optimizer steps; see NOTE [steps].

    raw: the same with the extra fraction bits of a `FineGradient`, if it has them.
    """

    step: OptimizerStep | None = field(default=None, repr=False, compare=False)
    raw: Value | None = field(default=None, repr=False, compare=False)

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        raw = None if self.raw is None else self.raw.map(change)
        return gradient(super().map(change), self.step, raw)

    def ordinary(self) -> Value:
        """The same value without the mark."""
        return Value(self.share, self.dtype, self.saved, self.known)


def gradient(x: Value, step: OptimizerStep | None, raw: Value | None = None) -> Gradient:
    """The same value as a gradient of this step; see `Gradient` for raw."""
    if is_fine(x):
        raw = x.raw
    return Gradient(x.share, x.dtype, x.saved, x.known, step, raw)


class ExtendedValue(LazyValue):
    """A value that also exists with more fraction bits, as `raw`.

    step: the optimizer's step that computed it, if one did. parts: what a root is made of, while
    nothing has read it; then `raw` is given as a function, which the first read calls. piece_of:
    the vector that it is a piece of, and which one (see joint_vectors.py).
    """

    piece_of: tuple[ExtendedValue, int] | None = None
    least_bits = 0  # x >= 2^least_bits units

    def __init__(
        self,
        n: Format,
        raw: Arith | Callable[[], Arith],
        fraction_bits: int,
        dtype: torch.dtype,
        step: OptimizerStep | None = None,
        parts: RootParts | None = None,
    ) -> None:
        def rounded() -> Value:
            share = n.protocol.settled(self.raw.divided(fraction_bits - n.fraction_bits))
            return Value(cap(n, share), dtype)

        shape = raw.shape if isinstance(raw, Arith) else parts.square.shape  # type: ignore[union-attr]
        super().__init__(rounded, shape, dtype)
        self._raw, self.fraction_bits, self.step, self.parts = raw, fraction_bits, step, parts

    @property
    def has_raw(self) -> bool:
        """Whether `raw` is computed."""
        return isinstance(self._raw, Arith)

    @property
    def raw(self) -> Arith:
        """The share with `fraction_bits`."""
        if not isinstance(self._raw, Arith):
            self._raw = self._raw()
        return self._raw


class Ratio(LazyValue):
    """factor above / below, where `above` None stands for one.

    Adadelta's sqrt(d) / sqrt(v) and RAdam's 1 / sqrt(v) are far below a unit for large gradients,
    or beyond the range for small ones; times a gradient they are steps of an ordinary size.
    """

    def __init__(
        self, n: Format, above: ExtendedValue | None, below: ExtendedValue, factor: float = 1.0
    ) -> None:
        def quotient() -> Value:
            found = divide(n, 1.0 if above is None else above, below, positive=True)
            return found if factor == 1 else mul(n, found, factor)

        super().__init__(quotient, below.shape, below.dtype)
        self.above, self.below, self.factor = above, below, factor


class SignedProduct(LazyValue):
    """left right, whose sign is the product of the factors' signs however small it is."""

    def __init__(self, n: Format, left: Value, right: Value) -> None:
        super().__init__(lambda: mul(n, left, right), left.shape, left.dtype)
        self.left, self.right = left, right


def has_room(n: Format) -> bool:
    """Whether the ring has room for squares of gradients."""
    return n.ring.bits == RING_BITS and 10 <= n.fraction_bits <= SQUARE_BITS // 2


def active_step(*operands: Any) -> OptimizerStep | None:
    """The running step that one of the operands belongs to, if one does."""
    steps = (getattr(x, "step", None) for x in operands)
    return next((step for step in steps if step is not None and step.active), None)


def _extended(n: Format, raw: Arith, fraction_bits: int, *operands: Operand) -> ExtendedValue:
    """A result of these operands, the last of which gives the dtype."""
    dtype = operands[-1].dtype  # type: ignore[union-attr]
    return ExtendedValue(n, raw, fraction_bits, dtype, active_step(*operands))


def add_square(n: Format, total: Operand, x: Value, factor: float) -> ExtendedValue:
    """total + factor x^2 for a gradient or an average of gradients; promised below 2^10."""
    p, added = n.protocol, _times(n, _square(n, x), factor)
    if isinstance(total, Tensor):
        raw = p.add_public(added, encode(n, total, SQUARE_BITS))
    else:
        raw = p.add(_raw(n, total, SQUARE_BITS), added)
    raw = _promised(raw, SQUARE_BITS + 2 * GRADIENT_BITS)
    return _extended(n, raw, SQUARE_BITS, total, x)


def _promised(raw: Arith, bits: int) -> Arith:
    """An average, promised below 2^bits whatever is known of its terms.

    So all steps of an optimizer leave averages of the same form, and can be one recorded step.
    """
    return raw.with_parts(raw.parts, limit=1 << bits)


def _square(n: Format, x: Value) -> Arith:
    """x^2 with 40 fraction bits."""
    p = n.protocol
    if is_root(x):
        return p.settled(p.square(p.settled(_bounded(n, x).divided(ROOT_BITS - SQUARE_BITS // 2))))
    share, bits = clipped(n, x)
    return p.settled(p.square(share)).scaled(1 << (SQUARE_BITS - 2 * bits))


def is_root(x: Any) -> bool:
    """Whether x has the 26 fraction bits of roots and of averages of gradients."""
    return isinstance(x, ExtendedValue) and x.fraction_bits == ROOT_BITS


def is_square(x: Any) -> bool:
    """Whether x has the 40 fraction bits of averages of squares."""
    return isinstance(x, ExtendedValue) and x.fraction_bits == SQUARE_BITS


def clipped(n: Format, x: Value) -> tuple[Arith, int]:
    """The gradient clipped to 2^5, and its fraction bits.

    Kept beside the gradient, because an optimizer needs it twice.
    """
    bits = n.fraction_bits
    if isinstance(x, Gradient) and x.raw is not None:
        bits = min(bits + gradient_bits(n), SQUARE_BITS // 2)
    found = x.saved.get("clipped")
    if found is None:
        end = (1 << (bits + GRADIENT_BITS)) - 1
        share = n.protocol.clip(_gradient_share(n, x, bits), -end, end).promise(end)
        found = x.saved["clipped"] = Value(share, x.dtype)
    return found.arith, bits


def _gradient_share(n: Format, x: Value, bits: int) -> Arith:
    """A gradient with this many fraction bits, those that `clipped` gives it."""
    if not isinstance(x, Gradient) or x.raw is None:
        return cap(n, x.arith)
    extra = gradient_bits(n)
    return cap(n.widened(extra), x.raw.arith).divided(n.fraction_bits + extra - bits)


def _wide(n: Format, x: Value) -> Arith:
    """The clipped gradient with 26 fraction bits."""
    share, bits = clipped(n, x)
    return share.scaled(1 << (ROOT_BITS - bits))


def _bounded(n: Format, x: Value) -> Arith:
    """An average of gradients with its 26 fraction bits, clipped to 2^5 if it may be larger."""
    assert isinstance(x, ExtendedValue)
    end = 1 << (ROOT_BITS + GRADIENT_BITS)
    if x.raw.limit <= end << x.raw.pending:
        return x.raw
    return n.protocol.clip(n.protocol.settled(x.raw), -end, end).promise(end)


def _raw(n: Format, x: Operand, fraction_bits: int) -> Arith:
    """x with this many fraction bits."""
    if isinstance(x, ExtendedValue) and x.fraction_bits == fraction_bits:
        return x.raw
    return n.protocol.settled(operand(n, x).arith).scaled(1 << (fraction_bits - n.fraction_bits))


def _times(n: Format, x: Arith, factor: float) -> Arith:
    """factor x, with 11 bits of the factor. 1 round; none for small integers."""
    if factor in (1.0, -1.0):
        return x.scaled(int(factor))
    bits = FACTOR_BITS - exponent(factor)
    product = x.scaled(round(factor * 2.0**bits))
    return n.protocol.settled(product.divided(bits)) if bits > 0 else product.scaled(1 << -bits)


def _grown(n: Format, x: Arith, factor: float) -> Arith:
    """factor x for 1 < factor <= 2^6, promised for all factors that are computed alike. 1 round.

    Adam divides by the root of a bias correction, so its factor falls from 31 to 1. With one of few
    promises, few recordings of a step are enough (see tacit.fixedpoint.symbolic).
    """
    growth, bits = decided(_growth, factor), FACTOR_BITS - 1
    product = x.scaled(round(factor * 2.0**bits))
    product = product.with_parts(product.parts, limit=x.limit << (growth + bits))
    return n.protocol.settled(product.divided(bits))


def _corrected_root(n: Format, x: ExtendedValue, factor: float) -> Arith:
    """factor x > x for a root, of the average of clipped squares that lacks the factor's square."""
    grown = _grown(n, x.raw, factor)
    clips = x.step is not None and x.step.active and x.step.clips
    return grown.promise(LARGEST_ROOT) if clips and is_root(x) else grown


def _growth(factor: float) -> int:
    return next(bits for bits in GROWTHS if factor <= 1 << bits)


def scaled(n: Format, x: ExtendedValue, factor: float) -> ExtendedValue:
    """factor x. A factor just below one is computed as one minus a small number: more precise."""

    def raw() -> Arith:
        if 0.5 < factor < 1:
            return n.protocol.sub(x.raw, _times(n, x.raw, 1 - factor)).promise(x.raw.limit)
        if 1 < factor <= 1 << GROWTHS[-1] and x.raw.limit <= LARGEST_GROWN:
            return _corrected_root(n, x, factor)
        return _times(n, x.raw, factor)

    if x.parts is not None and x.parts.summand is None and factor >= 1:
        return _lazy_root(n, replace(x.parts, factor=x.parts.factor * factor), raw)
    return _extended(n, raw(), x.fraction_bits, x)


def bias_corrected(n: Format, x: ExtendedValue, factor: float) -> ExtendedValue:
    """factor x, for an average of squares that started at 0 and lacks this factor, at least 1.

    The product is promised below 2^10 like every average, so the factor has 11 fraction bits.
    """
    bits = SQUARE_BITS + 2 * GRADIENT_BITS
    product = _promised(x.raw.scaled(round(factor * 2.0**FACTOR_BITS)), bits + FACTOR_BITS)
    raw = n.protocol.settled(product.divided(FACTOR_BITS))
    return _extended(n, _promised(raw, bits), x.fraction_bits, x)


def average(n: Format, mean: Operand, x: Gradient, weight: float) -> ExtendedValue:
    """mean + weight (x - mean), with 26 fraction bits: with fewer, small means would not move."""
    p, bits = n.protocol, n.range_bits
    if x.step is not None and x.step.clips:
        bits, wide = GRADIENT_BITS, _wide(n, x)
    else:
        wide = cap(n, p.settled(x.arith)).scaled(1 << (ROOT_BITS - n.fraction_bits))
    if isinstance(mean, Tensor):
        raw = p.add_public(_times(n, wide, weight), encode(n, mean * (1 - weight), ROOT_BITS))
    else:
        old = _raw(n, mean, ROOT_BITS)
        raw = p.add(old, _times(n, p.sub(wide, old), weight))
    return _extended(n, _promised(raw, ROOT_BITS + bits), ROOT_BITS, mean, x)


def larger(n: Format, a: ExtendedValue, b: ExtendedValue) -> ExtendedValue:
    """The larger of two, element by element."""
    return _extended(n, n.protocol.maximum(a.raw, b.raw), a.fraction_bits, a, b)


def largest_size(n: Format, old: Operand, size: Value) -> ExtendedValue:
    """The larger of a running maximum, the size of a gradient and a quarter of a unit."""
    p, least = n.protocol, 1 << (ROOT_BITS - n.fraction_bits - 2)
    raw = p.maximum(_raw(n, old, ROOT_BITS), p.add_public(_wide(n, size), least))
    return _extended(n, _promised(raw, ROOT_BITS + GRADIENT_BITS), ROOT_BITS, old, size)


def root(n: Format, x: ExtendedValue) -> ExtendedValue:
    """The square root of an average of squares, with 26 fraction bits."""

    def raw() -> Arith:
        return n.protocol.settled(run(n, _root, x.raw))

    if has_waves(n) and active_step(x) is not None:
        return _lazy_root(n, RootParts(x), raw)
    return _extended(n, raw(), ROOT_BITS, x)


def _lazy_root(n: Format, parts: RootParts, raw: Callable[[], Arith]) -> ExtendedValue:
    x = parts.square
    return ExtendedValue(n, raw, ROOT_BITS, x.dtype, x.step, parts)


def _root(n: Format, x: Arith) -> Steps[Arith]:
    """x = c 2^(e+1-40) has the root sqrt(c) 2^((e+1)/2 - 20)."""

    def power(e: int) -> int:
        return isqrt(1 << (e + 1 + 2 * ROOT_BITS - SQUARE_BITS))

    parts = yield from mantissa_of(n, x, [power], under=0, octaves=root_octaves(n), rate=1)
    value = yield from of_mantissa(n, parts, Decimal.sqrt, fraction_bits=MANTISSA_BITS)
    value = value.promise(2 << (MANTISSA_BITS + value.pending))
    result = yield from product(n, value, parts.entries[0], shift=MANTISSA_BITS)
    return result.promise(1 << (ROOT_BITS + GRADIENT_BITS + 1 + result.pending))


def add_to_root(n: Format, x: ExtendedValue, summand: float) -> ExtendedValue:
    """max(x, 2^-f) + summand, or x + summand if that is far more than 2^-f."""
    units = round(summand * 2.0**x.fraction_bits)
    if units > LEAST_SUMMAND << (x.fraction_bits - n.fraction_bits):
        found = _extended(n, n.protocol.add_public(x.raw, units), x.fraction_bits, x)
        found.least_bits = units.bit_length() - 1
        return found

    def raw() -> Arith:
        p, least = n.protocol, 1 << (x.fraction_bits - n.fraction_bits)
        above = p.relu(p.add_public(x.raw, -least))
        return p.add_public(above, least + units).promise(x.raw.limit + least)

    is_small = summand < 2.0 ** -(n.fraction_bits + 3)
    if x.parts is not None and x.parts.summand is None and is_small:
        return _lazy_root(n, replace(x.parts, summand=summand), raw)
    return _extended(n, raw(), x.fraction_bits, x)


def add_to_square(n: Format, x: ExtendedValue, summand: float) -> ExtendedValue:
    """x + summand for an average of squares; the summand counts as 2^-40 at least."""
    least = max(round(summand * 2.0**SQUARE_BITS), 1)
    raw = n.protocol.add_public(x.raw, least)
    return _extended(n, raw.promise(1 << (SQUARE_BITS + 2 * GRADIENT_BITS)), SQUARE_BITS, x)


def public_value(n: Format, x: Tensor) -> ExtendedValue:
    """Public numbers with 26 fraction bits."""
    return ExtendedValue(n, n.protocol.public(encode(n, x, ROOT_BITS)), ROOT_BITS, x.dtype)


def quotient(n: Format, a: Value, b: ExtendedValue) -> Value:
    """a / b for b > 0 with 26 fraction bits.

    While an optimizer steps, `a` is a gradient or an average of gradients and is clipped to 2^5, as
    the gradients in b are.
    """
    steps = active_step(a, b) is not None
    if is_root(a):
        above = _bounded(n, a) if steps else a.raw  # type: ignore[attr-defined]
    elif steps:
        above = _wide(n, a)
    else:
        above = _raw(n, Value(cap(n, n.protocol.settled(a.arith)), a.dtype), ROOT_BITS)
    if steps and b.parts is not None and b.parts.summand is not None:
        return Value(_divided_by_root(n, above, b.parts), a.dtype)
    low = b.least_bits
    return Value(run(n, divided, above, b.raw, positive=True, low=low), a.dtype)


def _divided_by_root(n: Format, above: Arith, parts: RootParts) -> Arith:
    """The quotient by a root that nothing else has read: see lazy_roots.py."""
    square = parts.square
    if parts.factor != 1:
        square = bias_corrected(n, square, parts.factor * parts.factor)
    found: Arith = run(
        n,
        divided_by_root,
        n.protocol.settled(above),
        square.raw,
        bits=ROOT_BITS,
        square_bits=SQUARE_BITS,
        summand=parts.summand,
    )
    return cap(n, found)


def ratio_times(n: Format, ratio: Ratio, x: Value) -> Value:
    """The ratio times a gradient or an average of gradients."""
    if ratio.above is None:
        found = quotient(n, x, ratio.below)
    else:
        found = _wide_quotient(n, ratio.above, ratio.below, x)
    return found if ratio.factor == 1 else mul(n, found, ratio.factor)


def _wide_quotient(
    n: Format, above: ExtendedValue, below: ExtendedValue, x: Value
) -> ExtendedValue:
    """x above / below, which is promised to be below 2^5, with 26 fraction bits."""
    share, bits = clipped(n, x)
    raw = run(n, _wide_divided, above.raw, share, bits, below.raw)
    raw = n.protocol.settled(raw).promise(1 << (ROOT_BITS + GRADIENT_BITS))
    return _extended(n, raw, ROOT_BITS, below, x)


def _wide_divided(n: Format, above: Arith, x: Arith, bits: int, below: Arith) -> Steps[Arith]:
    """The fraction bits that a quotient lacks are given to its numerator; x has `bits`."""
    shift = bits - (ROOT_BITS - n.fraction_bits)
    numerator = yield from product(n, above, x, shift=max(shift, 0))
    numerator = yield from n.protocol.settled.steps(numerator)
    wide = numerator.scaled(1 << max(-shift, 0))
    return (yield from divided(n, wide, below, positive=True))
