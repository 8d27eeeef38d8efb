"""Normalisation: values with mean 0 and variance 1 along some dimensions, and its gradient.

NOTE [fine]: the inverse of a deviation is small where values are large. It, and what values are
multiplied by in its place, have more fraction bits than other values: those of a *fine* value.

NOTE [sums of squares]: of many values, or of a large one among them, the sum of the squares is
beyond the range while their mean is not. The sum is divided by a power of two, on the way to fewer
fraction bits; what is left of the division by the count is in the table of the inverse root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ..protocols import MUL
from .arithmetic import add, mul, neg, sub
from .conversion import operand, settled
from .format import Format, cap
from .functions.roots import inverse_root
from .functions.share_functions import run
from .reduce import mean, total
from .value import Operand, Value

Dims = Sequence[int]
Known = Value | Tensor


def extra_bits(n: Format) -> int:
    """By how many fraction bits a variance has more than other values; its range is as smaller."""
    return 6 if n.ring.bits == 64 else 2


def fine_bits(n: Format) -> int:
    """By how many fraction bits a fine value has more."""
    return 8 if n.ring.bits == 64 else 0


class Normal(NamedTuple):
    """What a normalisation computes; all but `value` have size 1 along its dimensions."""

    value: Value
    mean: Value
    variance: Value
    inverse: Value  # of the standard deviation; fine


def normalise(n: Format, x: Value, dims: Dims, eps: float) -> Normal:
    """(x - mean) / sqrt(variance + eps) over these dimensions.

    The variance, eps included, is off by 2^-(f + 6) at most and below 2^(range_bits - 7), and
    the sum of the squares is below 2^(k - 2 - 2f): 2^30 for 64 bits with 16 fraction bits.
    Rounds: three divisions, two products and an inverse square root.
    """
    if not x.shape.numel():
        nothing = total(n, x, dims, keepdim=True)
        return Normal(x, nothing, nothing, nothing)
    average = settled(n, mean(n, x, dims, keepdim=True))
    centred = settled(n, sub(n, x, average))
    larger, excess = _spread(n, centred, dims)
    inverse = settled(n, _inverse(n, larger, eps, excess))
    coarser = Value(larger.arith.divided(extra_bits(n)), x.dtype)
    variance = mul(n, coarser, float(1 / excess))
    return Normal(times_fine(n, centred, inverse), average, variance, inverse)


def _spread(n: Format, centred: Value, dims: Dims) -> tuple[Value, Fraction]:
    """The variance with its extra bits, too large by a public factor below 2, and that factor.

    See NOTE [sums of squares]. A product and a division.
    """
    count = prod(centred.shape[dim] for dim in dims)
    power = count.bit_length() - 1
    elements = centred.arith.promise(1 << (n.ring.bits // 2 - 1))
    squares = n.protocol.square(elements, shift=n.fraction_bits - extra_bits(n))
    total = squares.sum(*dims, keepdim=True).promise(1 << (n.ring.bits - 2)).divided(power)
    return settled(n, Value(total, centred.dtype)), Fraction(count, 1 << power)


def inverse_deviation(n: Format, variance: Value, eps: float) -> Value:
    """1 / sqrt(variance + eps); fine."""
    bits = extra_bits(n)
    if variance.arith.pending >= bits:
        larger = Value(variance.arith.divided(-bits), variance.dtype)
    else:
        larger = mul(n, variance, 1 << bits)
    return settled(n, _inverse(n, larger, eps))


def _inverse(n: Format, larger: Value, eps: float, excess: Fraction = Fraction(1)) -> Value:
    """The same, of a variance with its extra bits that is too large by a factor.

    With them it may be beyond the range, though not beyond the ring.
    """
    bits = extra_bits(n)
    shifted = add(n, larger, eps * 2.0**bits * float(excess)).arith
    most = min(n.fraction_bits + n.range_bits + bits, n.ring.bits - 5)
    shifted = shifted.promise(1 << (most + shifted.pending))
    root = run(n, inverse_root, shifted, gain=bits // 2 + fine_bits(n), excess=excess)
    return Value(root, larger.dtype)


def times_fine(n: Format, x: Operand, fine: Operand) -> Value:
    """x times a fine value, or times a public one as it is. 1 round."""
    if not isinstance(fine, Value):
        return mul(n, x, fine)
    a, b = operand(n, x).arith, fine.arith
    shape = torch.broadcast_shapes(a.shape, b.shape)
    a, b = (y if y.shape == shape else y.expand(*shape) for y in (a, b))
    shift = n.fraction_bits + fine_bits(n)
    return Value(cap(n, n.protocol.bilinear(MUL, a, b, shift=shift)), fine.dtype)


def coarse(n: Format, fine: Value) -> Value:
    """A fine value as an ordinary one."""
    return Value(fine.arith.divided(fine_bits(n)), fine.dtype)


def normalise_backward(n: Format, grad: Value, value: Value, inverse: Value, dims: Dims) -> Value:
    """The gradient by the input of `normalise`, from that by its value. Three products."""
    if not grad.shape.numel():
        return grad
    grad = settled(n, grad)
    along = settled(n, mean(n, mul(n, grad, value), dims, keepdim=True))
    centred = sub(n, grad, mean(n, grad, dims, keepdim=True))
    return times_fine(n, sub(n, centred, mul(n, value, along)), inverse)


class Line(NamedTuple):
    """A normalisation with fixed statistics: x scale + shift. The first two are fine."""

    inverse: Operand  # of the standard deviation
    scale: Operand
    shift: Operand


def fixed_line(
    n: Format,
    weight: Known | None,
    bias: Known | None,
    average: Known,
    variance: Known,
    eps: float,
) -> Line:
    """The normalisation by this mean and variance, then times weight, plus bias.

    An inverse square root and two products of vectors, once for the same secrets: what is made of
    a variance is kept beside it.
    """
    if isinstance(variance, Tensor):
        return _made_line(n, 1 / (variance.to(torch.float64) + eps).sqrt(), weight, bias, average)
    name = f"inverse deviation, {eps}"
    if name not in variance.kept:
        variance.kept[name] = inverse_deviation(n, variance, eps)
    inverse = variance.kept[name]
    kept, sources = inverse.kept, {"weight": weight, "bias": bias, "mean": average}
    if "scale" not in kept or any(kept.get(name) is not x for name, x in sources.items()):
        line = _made_line(n, inverse, weight, bias, average)
        made = {"scale": line.scale, "shift": line.shift, **sources}
        kept.clear()
        kept.update({name: x for name, x in made.items() if isinstance(x, Value)})
        return line
    return Line(inverse, kept["scale"], kept["shift"])


def _made_line(
    n: Format, inverse: Known, weight: Known | None, bias: Known | None, average: Known
) -> Line:
    scale = inverse if weight is None else _scaled(n, inverse, weight)
    shift = _plain_or(torch.mul, lambda a, b: times_fine(n, a, b), average, scale)
    shift = neg(n, shift) if isinstance(shift, Value) else -shift
    if bias is not None:
        shift = _plain_or(torch.add, lambda a, b: add(n, a, b), shift, bias)
    made = [settled(n, x) if isinstance(x, Value) else x for x in (scale, shift)]
    return Line(inverse, *made)


def _scaled(n: Format, inverse: Known, weight: Known) -> Known:
    """A fine value times an ordinary one is fine; so is a public one times a secret, made so."""
    if isinstance(inverse, Tensor) and isinstance(weight, Value):
        return mul(n, mul(n, weight, inverse), 1 << fine_bits(n))
    return _plain_or(torch.mul, lambda a, b: mul(n, a, b), inverse, weight)


def _plain_or(
    plain: Callable[[Tensor, Tensor], Tensor], secret: Callable[..., Value], a: Known, b: Known
) -> Known:
    return plain(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else secret(a, b)
