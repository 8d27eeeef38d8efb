"""Batch normalisation, forward and backward, and helpers that other norms use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Value
from ...operand import Array
from ...table import implements

aten = torch.ops.aten

Maybe = Array | None
Grads = tuple[Maybe, Maybe, Maybe]
RUNNING = ("running_mean", "running_var")


@implements(aten.native_batch_norm.default, aten._native_batch_norm_legit.default, writes=RUNNING)
def native_batch_norm(
    n: Numbers,
    input: Array,
    weight: Maybe,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """The result, the mean and the inverse deviation, then the new running statistics."""
    if not training:
        assert running_mean is not None
        assert running_var is not None
        line = n.fixed_norm(weight, bias, running_mean, running_var, eps)
        result = n.apply_norm(input, spatial(line.scale, input), spatial(line.shift, input))
        nothing = torch.empty(0, dtype=input.dtype)
        return result, nothing, nothing, None, None
    if isinstance(running_mean, Tensor) or isinstance(running_var, Tensor):
        raise UnsupportedOp(
            "batch norm in training would put secret statistics into public buffers",
            remedy="share the module, or set track_running_stats=False",
        )
    x = n.operand(input)
    normal = n.normalise(x, others(x, 1), eps)
    average, variance = _flat(normal.mean), _flat(normal.variance)
    count = x.shape.numel() // max(x.shape[1], 1)
    new_mean = _updated(n, running_mean, average, momentum)
    new_var = _updated(n, running_var, variance, momentum, count / max(count - 1, 1))
    result = affine(n, normal.value, spatial(weight, x), spatial(bias, x))
    return (
        result,
        average,
        _flat(n.round_extended(normal.inverse)).with_saved(**saved_for_gradient(normal)),
        new_mean,
        new_var,
    )


@implements(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(
    n: Numbers,
    input: Array,
    weight: Maybe,
    bias: Maybe,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Batch norm in training without running statistics."""
    return native_batch_norm(n, input, weight, bias, None, None, True, momentum, eps)[:3]


@implements(aten._native_batch_norm_legit_no_training.default)
def batch_norm_no_training(
    n: Numbers,
    input: Array,
    weight: Maybe,
    bias: Maybe,
    running_mean: Array,
    running_var: Array,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Batch norm by running statistics: a product and a sum for each channel."""
    stats = (running_mean, running_var, False, momentum, eps)
    return native_batch_norm(n, input, weight, bias, *stats)[:3]


@implements(aten._batch_norm_with_update.default, writes=RUNNING)
def batch_norm_with_update(
    n: Numbers,
    input: Array,
    weight: Maybe,
    bias: Maybe,
    running_mean: Array,
    running_var: Array,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Batch norm in training; the running statistics are written."""
    stats = (running_mean, running_var, True, momentum, eps)
    *results, new_mean, new_var = native_batch_norm(n, input, weight, bias, *stats)
    return *results, torch.empty(0, dtype=torch.uint8), new_mean, new_var


@implements(aten._batch_norm_no_update.default)
def batch_norm_no_update(
    n: Numbers,
    input: Array,
    weight: Maybe,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Batch norm by running statistics, with an empty reserve."""
    stats = (running_mean, running_var, False, momentum, eps)
    results = native_batch_norm(n, input, weight, bias, *stats)[:3]
    return *results, torch.empty(0, dtype=torch.uint8)


@implements(aten.batch_norm_backward.default)
def batch_norm_backward(
    n: Numbers,
    grad_out: Array,
    input: Array,
    weight: Array,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_var: Maybe,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: Tensor,
) -> Grads:
    """The gradients by input, weight and bias."""
    saved = (running_mean, running_var, save_mean, save_var)
    return native_batch_norm_backward(n, grad_out, input, weight, *saved, update, eps, output_mask)


@implements(aten.native_batch_norm_backward.default)
def native_batch_norm_backward(
    n: Numbers,
    grad_out: Array,
    input: Array,
    weight: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_invstd: Maybe,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Grads:
    """The gradients by input, weight and bias; in training the forward pass saved the inverse
    deviation."""
    grad = n.settled(n.operand(grad_out))
    dims = others(grad, 1)
    if train:
        assert isinstance(save_invstd, Value)
        value, inverse = save_invstd.saved["value"], save_invstd.saved["inverse"]
    else:
        assert running_mean is not None
        assert running_var is not None
        line = n.fixed_norm(weight, None, running_mean, running_var, eps)
        inverse = spatial(line.inverse, grad)
        value = n.mul_extended(n.sub(input, spatial(running_mean, grad)), inverse)
    by_weight = n.total(n.mul(grad, value), dims) if output_mask[1] else None
    by_bias = n.total(grad, dims) if output_mask[2] else None
    if not output_mask[0]:
        return None, by_weight, by_bias
    scaled = grad if weight is None else n.mul(grad, spatial(weight, grad))
    if train:
        return n.normalise_backward(scaled, value, inverse, dims), by_weight, by_bias
    return n.scale_gradient(scaled, inverse), by_weight, by_bias


# Helpers of all norms -----------------------------------------------------------------------------


def affine(n: Numbers, x: Value, weight: Maybe, bias: Maybe) -> Value:
    """x weight + bias, either of which may be missing."""
    x = x if weight is None else n.mul(x, weight)
    return x if bias is None else n.add(x, bias)


def saved_for_gradient(normal: Any) -> dict[str, Value]:
    """The parts of a normalisation that its gradient needs."""
    return {"value": normal.value, "inverse": normal.inverse}


def _updated(n: Numbers, old: Maybe, new: Value, momentum: float, factor: float = 1.0) -> Maybe:
    """A running statistic, updated by one more batch."""
    if old is None:
        return None
    return n.add(n.mul(old, 1.0 - momentum), n.mul(new, momentum * factor))


def others(x: Array, keep: int) -> list[int]:
    """All dimensions but one."""
    return [dim for dim in range(len(x.shape)) if dim != keep]


def spatial(x: Any, like: Array) -> Any:
    """Numbers by channel, in a shape that broadcasts over a batch of images."""
    shape = (-1, *[1] * (len(like.shape) - 2))
    if isinstance(x, Value):
        return x.map(lambda part: part.reshape(shape))
    return x if x is None else x.reshape(shape)


def _flat(x: Value) -> Value:
    return x.map(lambda part: part.reshape(-1))
