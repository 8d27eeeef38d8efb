"""Batch normalisation of an enclave's tensors that do not fit into its memory at once.

Two passes over the rows: sums of each channel in float64, then the result. torch adds up in another
order, so that results may differ in their last bits from those of one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..fixedpoint import PlainNumbers, Value

aten = torch.ops.aten


def forward(
    n: PlainNumbers,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """y = (x - mean) weight / sqrt(var + eps) + bias, mean, 1 / sqrt(var + eps), new statistics."""
    cut, name = _only(n, input), "batch norm"
    count = input.shape.numel() // input.shape[1]

    def normal(
        x: Tensor, mean: Tensor, inverse: Tensor, w: Tensor | None, b: Tensor | None
    ) -> Tensor:
        scale = inverse if w is None else inverse * w
        shift = -mean * scale if b is None else b - mean * scale
        return x * _spatial(scale, x) + _spatial(shift, x)

    if not training:
        inverse = n.compute(name, lambda var: (var + eps).rsqrt(), running_var)
        result = n.by_rows(cut, name, normal, input, running_mean, inverse, weight, bias)
        return result, *(torch.empty(0, dtype=input.dtype) for _ in range(2)), None, None
    total = n.summed(cut, name, _sums, input)
    mean = n.compute(name, lambda x: x / count, total)
    squares = n.summed(cut, name, _squares, input, mean)

    def statistics(mean: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        inverse = 1 / (squares / count + eps).sqrt()
        return mean.to(input.dtype), inverse.to(input.dtype)

    def updated(old: Tensor, new: Tensor, divisor: int) -> Tensor:
        return ((1 - momentum) * old + momentum * (new / divisor)).to(old.dtype)

    average, inverse = n.compute(name, statistics, mean, squares)
    new_mean = running_mean and n.compute(name, updated, running_mean, mean, 1)
    new_var = running_var and n.compute(name, updated, running_var, squares, max(count - 1, 1))
    result = n.by_rows(cut, name, normal, input, average, inverse, weight, bias)
    return result, average, inverse, new_mean, new_var


def backward(
    n: PlainNumbers,
    grad_out: Value,
    input: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_invstd: Value | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """The gradients by input, weight and bias."""
    cut, name = _only(n, grad_out, input), "the gradient of batch norm"
    count = input.shape.numel() // input.shape[1]
    mean, inverse = save_mean, save_invstd
    if not train:
        mean = running_mean
        inverse = n.compute(name, lambda var: (var + eps).rsqrt(), running_var)
    by_bias, by_weight = n.summed(cut, name, _gradients, grad_out, input, mean, inverse)

    def by_input(dy: Tensor, x: Tensor, *others: Tensor | None) -> Tensor:
        mean, inverse, w, first, second = (y if y is None else _spatial(y, x) for y in others)
        assert mean is not None
        assert inverse is not None
        if train:
            assert first is not None
            assert second is not None
            dy = dy - first / count - (x - mean) * inverse * (second / count)
        return (dy * inverse if w is None else dy * (inverse * w)).to(x.dtype)

    whole = [mean, inverse, weight, by_bias, by_weight]
    made = n.by_rows(cut, name, by_input, grad_out, input, *whole) if output_mask[0] else None
    ends = [n.convert(x, input.dtype) for x in (by_weight, by_bias)]
    return made, *(x if wanted else None for x, wanted in zip(ends, output_mask[1:], strict=True))


def _gradients(dy: Tensor, x: Tensor, mean: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of dy, and of dy (x - mean) inverse."""
    normal = (x - _spatial(mean, x)) * _spatial(inverse, x)
    return _sums(dy), _sums(dy * normal)


def _sums(x: Tensor) -> Tensor:
    return x.double().sum(_others(x))  # in two steps: the copy is seen, and counts


def _squares(x: Tensor, mean: Tensor) -> Tensor:
    return _sums((x - _spatial(mean, x)).square())


def _others(x: Tensor) -> list[int]:
    return [dim for dim in range(x.dim()) if dim != 1]


def _spatial(x: Tensor, like: Tensor) -> Tensor:
    """A value for each channel, for a tensor of images."""
    return x.reshape(-1, *[1] * (like.dim() - 2))


def _only(n: PlainNumbers, *values: Value) -> Callable[[Tensor], bool]:
    tensors = [n.tensor(x) for x in values]
    return lambda x: any(x is one for one in tensors)


RULES: dict[OpOverload, Callable[..., Any]] = {
    aten.native_batch_norm.default: forward,
    aten._native_batch_norm_legit.default: forward,
    aten.native_batch_norm_backward.default: backward,
}
