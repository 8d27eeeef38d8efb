"""Normalisation: values with mean 0 and variance 1 along some dimensions, and its gradient.

NOTE [extended]: the inverse of a standard deviation is small if the values are large. So it is an
*extended* value: it has `extended_bits` more fraction bits than its dtype says. So are the factors
that take its place. A product with it has 2 f + extended_bits fraction bits before its division,
and fits the ring if it is below 2^NORMAL_BITS.

NOTE [sums of squares]: the sum of the squares of many values, or of one large value, may leave the
range although their mean does not. The sum is divided by a power of two close to the count, in the
same division that drops fraction bits. The rest of the division by the count, a public factor
below 2 (`excess`), goes into the table of the inverse root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ..protocols import MUL
from .arithmetic import add, broadcast, mul, neg, sub
from .format import Format, cap, variance_bits, variance_floor, variance_limit
from .functions.roots import inverse_root
from .functions.share_functions import run
from .lazy import Deferred
from .long_sum import long_sum
from .reduce import mean, total
from .value import Operand, Value, operand, settled

# Normalised values are below 2^12: a value normalised over 2^24 elements is below sqrt(2^24).
NORMAL_BITS = 12

Dims = Sequence[int]
Known = Value | Tensor


def extended_bits(n: Format) -> int:
    """Returns the extra fraction bits of an extended value: 8, or as many as fit."""
    if n.ring.bits < 64:
        return 0
    room = n.ring.bits - 2 - 2 * n.fraction_bits - min(NORMAL_BITS, n.range_bits)
    return max(min(8, room), 0)


class Normalization(NamedTuple):
    """The results of a normalisation; all but `value` have size 1 along its dimensions."""

    value: Value
    mean: Value
    variance: Value
    inverse: Value  # 1 / sqrt(variance + eps), extended


def normalise(n: Format, x: Value, dims: Dims, eps: float) -> Normalization:
    """Returns (x - mean) / sqrt(variance + eps) over these dimensions, and the statistics.

    The variance, eps included, has an error of 2^-(f + 6) and must be below 2^(range_bits - 7), and
    each square below 2^(k - 2 - 2f), which is 2^30 for 64 bits and f = 16. With 32 bits the error
    is 2^(1 - 2f), the variance must be below 2^(range_bits - 1) and 2^6, and counts as 2^-(f + 4)
    at least. Rounds: a division (two, if the count is no power of two), two products and an inverse
    square root; a division more for long sums (long_sum.py).
    """
    if not x.shape.numel():
        nothing = total(n, x, dims, keepdim=True)
        return Normalization(x, nothing, nothing, nothing)
    centred, average = _centred(n, x, dims)
    larger, excess = _larger_variance(n, centred, dims)
    inverse = settled(n, _inverse(n, larger, eps, excess))

    def variance() -> Value:
        rounded = Value(settled(n, larger).arith.divided(variance_bits(n)), x.dtype)
        return mul(n, rounded, float(1 / excess))

    deferred = Deferred(variance, larger.shape, x.dtype)
    return Normalization(mul_extended(n, centred, inverse), average, deferred, inverse)


def _centred(n: Format, x: Value, dims: Dims) -> tuple[Value, Value]:
    """Returns x less its mean, with nothing pending, and the mean.

    The mean of 2^b values is their sum with a division pending; it is made with that of x.
    """
    power = prod(x.shape[dim] for dim in dims).bit_length() - 1
    share = cap(n, x.arith)
    average = share.sum(*dims, keepdim=True).divided(power).promise(share.limit << power)
    difference = n.protocol.sub(share, average)
    is_power = prod(x.shape[dim] for dim in dims) == 1 << power
    if is_power and difference.limit < 1 << (n.ring.bits - 2):
        return Value(cap(n, n.protocol.settled(difference)), x.dtype), Value(average, x.dtype)
    rounded = settled(n, mean(n, x, dims, keepdim=True))
    return settled(n, sub(n, x, rounded)), rounded


def _larger_variance(n: Format, centred: Value, dims: Dims) -> tuple[Value, Fraction]:
    """Returns excess times the variance, with its extra bits, and the excess.

    See NOTE [sums of squares]. A product; its division is pending.
    """
    count = prod(centred.shape[dim] for dim in dims)
    power = count.bit_length() - 1
    elements = centred.arith.promise(1 << (n.ring.bits // 2 - 1))
    squares = n.protocol.square(elements, shift=n.fraction_bits - variance_bits(n))
    bits = n.fraction_bits + variance_bits(n)
    total = long_sum(n, squares, dims, fraction_bits=bits, keepdim=True)
    total = total.promise(1 << (n.ring.bits - 2)).divided(power)
    total = total.promise(1 << (variance_limit(n) + total.pending))
    return Value(total, centred.dtype), Fraction(count, 1 << power)


def _inverse_deviation(n: Format, variance: Value, eps: float) -> Value:
    """Returns 1 / sqrt(variance + eps), extended."""
    bits = variance_bits(n)
    if variance.arith.pending >= bits:
        larger = Value(variance.arith.divided(-bits), variance.dtype)
    else:
        larger = mul(n, variance, 1 << bits)
    return settled(n, _inverse(n, larger, eps))


def _inverse(n: Format, larger: Value, eps: float, excess: Fraction = Fraction(1)) -> Value:
    """Returns 1 / sqrt(variance + eps), extended, from the result of `_larger_variance`.

    With its extra bits the variance may leave the range, but not the ring.
    """
    bits = variance_bits(n)
    shifted = add(n, larger, eps * 2.0**bits * float(excess)).arith
    most = min(n.fraction_bits + n.range_bits + bits, n.ring.bits - 5)
    shifted = shifted.promise(1 << (most + shifted.pending))
    gain, low = bits // 2 + extended_bits(n), variance_floor(n)
    root = run(n, inverse_root, shifted, gain=gain, excess=excess, low=low)
    return Value(root, larger.dtype)


def mul_extended(n: Format, x: Operand, factor: Operand) -> Value:
    """Returns x times an extended value, or times public numbers. An ordinary value; 1 round."""
    if not isinstance(factor, Value):
        return mul(n, x, factor)
    return _product(n, operand(n, x), factor, extended_bits(n))


def scale_gradient(n: Format, grad: Operand, factor: Operand) -> Value:
    """Returns a gradient times an extended value, as `mul_extended`, in the whole range.

    The ring has no room for the extra bits of the factor, and of a gradient that has some too
    (extended/fine_gradients.py), if the result is large: some of both are dropped before the
    product. Where a division of the gradient is pending, that is free.
    """
    if not isinstance(factor, Value):
        return mul(n, grad, factor)
    x, extra = operand(n, grad), extended_bits(n)
    room = n.ring.bits - 2 - 2 * n.fraction_bits - extra
    excess = max(n.range_bits - room, 0)
    if excess:
        of_gradient = min(n.extra_bits, excess - excess // 2)
        x = Value(x.arith.divided(of_gradient), x.dtype)
        factor = Value(factor.arith.divided(excess - of_gradient), factor.dtype)
    return _product(n, x, factor, extra - excess)


def _product(n: Format, x: Value, factor: Value, extra: int) -> Value:
    """Returns x times a value with `extra` more fraction bits. An ordinary value; 1 round."""
    a, b = broadcast(x.arith, factor.arith)
    shift = n.fraction_bits + extra
    return Value(cap(n, n.protocol.bilinear(MUL, a, b, shift=shift)), factor.dtype)


def apply_norm(n: Format, x: Operand, scale: Operand, shift: Operand) -> Value:
    """Returns x scale + shift, where a secret scale is extended. Rounds as `mul_extended`.

    The result must be below 2^NORMAL_BITS. x scale and shift need not be: their sum is made before
    a division, so that what wraps in one of them wraps back in the sum.
    """
    product = mul_extended(n, x, scale)
    if not isinstance(scale, Value) or not isinstance(shift, Value):
        return add(n, product, shift)
    both = broadcast(product.arith, shift.arith)
    return Value(cap(n, n.protocol.add(*both)), product.dtype)


def round_extended(n: Format, x: Value) -> Value:
    """Returns an extended value as an ordinary one. Its division is pending."""
    return Value(x.arith.divided(extended_bits(n)), x.dtype)


def normalise_backward(n: Format, grad: Value, value: Value, inverse: Value, dims: Dims) -> Value:
    """Returns the gradient by the input of `normalise`, from that by its value. Three products.

    With y the value, it is (grad - mean(grad) - y mean(grad y)) inverse. An error of a mean would
    be the same for all elements, and add up in the gradients of earlier layers. So the division of
    mean(grad) stays pending, and mean(grad y) has as many extra bits as the ring has room for.
    """
    if not grad.shape.numel():
        return grad
    grad = settled(n, grad)
    along = mean(n, mul(n, grad, value), dims, keepdim=True).arith
    extra = min(extended_bits(n), max(n.most_range_bits - n.range_bits, 0), along.pending)
    precise = Value(n.protocol.settled(along.divided(-extra)), grad.dtype)
    centred = sub(n, grad, mean(n, grad, dims, keepdim=True))
    return scale_gradient(n, sub(n, centred, _product(n, value, precise, extra)), inverse)


class FixedNorm(NamedTuple):
    """A normalisation with given statistics, as x scale + shift."""

    inverse: Operand  # 1 / sqrt(variance + eps); extended if it is secret
    scale: Operand  # extended if it is secret
    shift: Operand


def fixed_norm(
    n: Format,
    weight: Known | None,
    bias: Known | None,
    average: Known,
    variance: Known,
    eps: float,
) -> FixedNorm:
    """Returns the normalisation by this mean and variance, times weight, plus bias.

    An inverse square root and two products of vectors, once for the same secrets: the results are
    saved beside the variance.
    """
    if isinstance(variance, Tensor):
        public_inverse = 1 / (variance.to(torch.float64) + eps).sqrt()
        return _new_fixed_norm(n, public_inverse, weight, bias, average)
    name = _kept_name(eps)
    if name not in variance.saved:
        variance.saved[name] = _inverse_deviation(n, variance, eps)
    inverse = variance.saved[name]
    saved, sources = inverse.saved, {"weight": weight, "bias": bias, "mean": average}
    if "scale" not in saved or any(saved.get(name) is not x for name, x in sources.items()):
        norm = _new_fixed_norm(n, inverse, weight, bias, average)
        keep_fixed_norm(norm, weight, bias, average, variance, eps)
        return norm
    return FixedNorm(inverse, saved["scale"], saved["shift"])


def keep_fixed_norm(
    norm: FixedNorm,
    weight: Known | None,
    bias: Known | None,
    average: Known,
    variance: Value,
    eps: float,
) -> None:
    """Saves a normalisation beside the secret variance, with the values that it was made of."""
    inverse = norm.inverse
    assert isinstance(inverse, Value)
    variance.saved[_kept_name(eps)] = inverse
    values = {"scale": norm.scale, "shift": norm.shift, "weight": weight, "bias": bias}
    inverse.saved.clear()
    for name, x in (values | {"mean": average}).items():
        if isinstance(x, Value):
            inverse.saved[name] = x


def _kept_name(eps: float) -> str:
    return f"inverse deviation, {eps}"


def _new_fixed_norm(
    n: Format, inverse: Known, weight: Known | None, bias: Known | None, average: Known
) -> FixedNorm:
    scale = inverse if weight is None else _scale(n, inverse, weight)
    shift = _either(torch.mul, mul_extended, n, average, scale)
    shift = neg(n, shift) if isinstance(shift, Value) else -shift
    if bias is not None:
        shift = _either(torch.add, add, n, shift, bias)
    scale, shift = (settled(n, x) if isinstance(x, Value) else x for x in (scale, shift))
    return FixedNorm(inverse, scale, shift)


def _scale(n: Format, inverse: Known, weight: Known) -> Known:
    """Returns inverse weight: extended if one of them is secret."""
    if isinstance(inverse, Tensor) and isinstance(weight, Value):
        return mul(n, mul(n, weight, inverse), 1 << extended_bits(n))
    return _either(torch.mul, mul, n, inverse, weight)


def _either(
    public: Callable[[Tensor, Tensor], Tensor],
    secret: Callable[[Format, Operand, Operand], Value],
    n: Format,
    a: Known,
    b: Known,
) -> Known:
    """Returns public(a, b) for two public operands, else secret(n, a, b)."""
    return public(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else secret(n, a, b)
