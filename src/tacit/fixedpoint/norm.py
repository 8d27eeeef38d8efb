"""Normalisation: values with mean 0 and variance 1 along some dimensions, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .arith import add, mul, settled, sub
from .reduce import mean, total
from .scale import cap
from .value import Operand, Value

if TYPE_CHECKING:
    from .numbers import Numbers

Dims = Sequence[int]
Known = Value | Tensor

# A variance has this many fraction bits more than other values, and a range as much smaller.
EXTRA = 6


class Normal(NamedTuple):
    """What a normalisation computes; all but `value` have size 1 along its dimensions."""

    value: Value
    mean: Value
    variance: Value
    inverse: Value  # of the standard deviation


def normalise(n: Numbers, x: Value, dims: Dims, eps: float) -> Normal:
    """(x - mean) / sqrt(variance + eps) over these dimensions.

    The variance, eps included, is off by 2^-(f + 6) at most and below 2^(range_bits - 6).
    Rounds: three divisions, two products and an inverse square root.
    """
    if not x.shape.numel():
        nothing = total(n, x, dims, keepdim=True)
        return Normal(x, nothing, nothing, nothing)
    average = settled(n, mean(n, x, dims, keepdim=True))
    centred = settled(n, sub(n, x, average))
    squares = n.protocol.square(centred.arith, shift=n.fraction_bits - EXTRA)
    larger = mean(n, Value(cap(n, squares), x.dtype), dims, keepdim=True)
    inverse = _inverse(n, larger, eps)
    variance = Value(larger.arith.divided(EXTRA), x.dtype)
    return Normal(mul(n, centred, inverse), average, variance, inverse)


def inverse_deviation(n: Numbers, variance: Operand, eps: float) -> Value:
    """1 / sqrt(variance + eps)."""
    return _inverse(n, _shifted(n, n.operand(variance), EXTRA), eps)


def _inverse(n: Numbers, larger: Value, eps: float) -> Value:
    """The same, of the variance times 2^EXTRA."""
    return _shifted(n, n.rsqrt(add(n, larger, eps * 2.0**EXTRA)), EXTRA // 2)


def _shifted(n: Numbers, x: Value, bits: int) -> Value:
    """x times 2^bits: of a pending division so much less is made."""
    if x.arith.pending >= bits:
        return Value(x.arith.divided(-bits), x.dtype)
    return mul(n, x, 1 << bits)


def normalise_backward(n: Numbers, grad: Value, value: Value, inverse: Value, dims: Dims) -> Value:
    """The gradient by the input of `normalise`, from that by its value. Three products."""
    if not grad.shape.numel():
        return grad
    grad = settled(n, grad)
    along = settled(n, mean(n, mul(n, grad, value), dims, keepdim=True))
    centred = sub(n, grad, mean(n, grad, dims, keepdim=True))
    return mul(n, sub(n, centred, mul(n, value, along)), inverse)


class Line(NamedTuple):
    """A normalisation with fixed statistics: x scale + shift."""

    inverse: Operand  # of the standard deviation
    scale: Operand
    shift: Operand


def fixed_line(
    n: Numbers,
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
    inverse = _fixed_inverse(n, variance, eps)
    if not isinstance(inverse, Value):
        return _made_line(n, inverse, weight, bias, average)
    kept = inverse.kept
    sources = {"weight": weight, "bias": bias, "mean": average}
    if "scale" not in kept or any(kept.get(name) is not x for name, x in sources.items()):
        line = _made_line(n, inverse, weight, bias, average)
        made = {"scale": line.scale, "shift": line.shift, **sources}
        kept.clear()
        kept.update({name: x for name, x in made.items() if isinstance(x, Value)})
        return line
    return Line(inverse, kept["scale"], kept["shift"])


def _fixed_inverse(n: Numbers, variance: Known, eps: float) -> Known:
    if isinstance(variance, Tensor):
        return (variance.to(torch.float64) + eps).rsqrt()
    name = f"inverse deviation, {eps}"
    if name not in variance.kept:
        made = settled(n, inverse_deviation(n, variance, eps))
        variance.kept[name] = Value(made.share, variance.dtype)
    return variance.kept[name]


def _made_line(
    n: Numbers, inverse: Known, weight: Known | None, bias: Known | None, average: Known
) -> Line:
    scale = inverse if weight is None else _either(n, n.mul, inverse, weight)
    shift = _either(n, n.mul, average, scale)
    shift = n.neg(shift) if isinstance(shift, Value) else -shift
    if bias is not None:
        shift = _either(n, n.add, shift, bias)
    secret = [settled(n, x) if isinstance(x, Value) else x for x in (scale, shift)]
    return Line(inverse, *secret)


def _either(n: Numbers, operation: Callable[..., Value], a: Known, b: Known) -> Known:
    """The operation on secrets, or torch's of the same name where both are public."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        plain: Tensor = getattr(torch, operation.__name__)(a, b)
        return plain
    return operation(a, b)
