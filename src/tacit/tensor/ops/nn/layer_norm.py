"""Layer, group and weight normalisation, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ....errors import ConfigError
from ....fixedpoint import Numbers, Operand, Value
from ...operand import Array
from ...table import implements
from .batch_norm import Grads, Maybe, affine, others, saved_for_gradient, spatial

aten = torch.ops.aten


@implements(aten.native_layer_norm.default)
def native_layer_norm(
    n: Numbers,
    input: Array,
    normalized_shape: Sequence[int],
    weight: Maybe,
    bias: Maybe,
    eps: float,
) -> tuple[Operand, Value, Value]:
    """The result, the mean and the inverse deviation, which keeps what the gradient needs."""
    x = n.operand(input)
    if tuple(x.shape[-len(normalized_shape) :]) != tuple(normalized_shape):
        raise ConfigError(
            f"layer_norm of {tuple(x.shape)} with normalized_shape={[*normalized_shape]}",
            limit="it is the end of the input's shape",
        )
    normal = n.normalise(x, _last(x, len(normalized_shape)), eps)
    inverse = n.round_extended(normal.inverse).with_saved(**saved_for_gradient(normal))
    return affine(n, normal.value, weight, bias), normal.mean, inverse


@implements(aten.native_layer_norm_backward.default)
def native_layer_norm_backward(
    n: Numbers,
    grad_out: Array,
    input: Array,
    normalized_shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Maybe,
    bias: Maybe,
    output_mask: Sequence[bool],
) -> Grads:
    """The gradients by input, weight and bias."""
    grad = n.settled(n.operand(grad_out))
    last = _last(grad, len(normalized_shape))
    first = [dim for dim in range(len(grad.shape)) if dim not in last]
    value, inverse = rstd.saved["value"], rstd.saved["inverse"]
    by_input = None
    if output_mask[0]:
        scaled = grad if weight is None else n.mul(grad, weight)
        by_input = n.normalise_backward(scaled, value, inverse, last)
    by_weight = _summed(n, n.mul(grad, value), first) if output_mask[1] else None
    return by_input, by_weight, _summed(n, grad, first) if output_mask[2] else None


@implements(aten.native_group_norm.default)
def native_group_norm(
    n: Numbers,
    input: Array,
    weight: Maybe,
    bias: Maybe,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Operand, Value, Value]:
    """The result, the mean and the inverse deviation of each group of channels."""
    x = n.operand(input)
    normal = n.normalise(_grouped(x, N, group), [2], eps)
    value = normal.value.map(lambda part: part.reshape(x.shape))
    result = affine(n, value, spatial(weight, x), spatial(bias, x))
    statistics = (normal.mean, n.round_extended(normal.inverse))
    mean, inverse = (y.map(lambda part: part.reshape(N, group)) for y in statistics)
    return result, mean, inverse.with_saved(**saved_for_gradient(normal))


@implements(aten.native_group_norm_backward.default)
def native_group_norm_backward(
    n: Numbers,
    grad_out: Array,
    input: Array,
    mean: Value,
    rstd: Value,
    weight: Maybe,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> Grads:
    """The gradients by input, weight and bias."""
    grad = n.settled(n.operand(grad_out))
    dims = others(grad, 1)
    value, inverse = rstd.saved["value"], rstd.saved["inverse"]
    by_weight = by_input = None
    if output_mask[1]:
        reshaped = value.map(lambda part: part.reshape(grad.shape))
        by_weight = n.total(n.mul(grad, reshaped), dims)
    if output_mask[0]:
        scaled = grad if weight is None else n.mul(grad, spatial(weight, grad))
        grouped = n.normalise_backward(_grouped(scaled, N, group), value, inverse, [2])
        by_input = grouped.map(lambda part: part.reshape(grad.shape))
    return by_input, by_weight, n.total(grad, dims) if output_mask[2] else None


def _grouped(x: Value, count: int, group: int) -> Value:
    size = x.shape.numel() // max(count * group, 1)
    return x.map(lambda part: part.reshape(count, group, size))


def _last(x: Array, count: int) -> list[int]:
    return list(range(len(x.shape) - count, len(x.shape)))


def _summed(n: Numbers, x: Value, dims: Sequence[int]) -> Value:
    return n.total(x, dims) if dims else x


# Weight normalisation: a direction and a length for each row --------------------------------------


@implements(aten._weight_norm_interface.default)
def weight_norm_interface(n: Numbers, v: Operand, g: Operand, dim: int = 0) -> tuple[Value, Value]:
    """v g / |v|, and |v|, over all dimensions but `dim`."""
    v = n.settled(n.operand(v))
    norms = n.settled(n.vector_norm(v, others(v, dim % len(v.shape)), keepdim=True))
    return n.mul(v, n.settled(n.div(g, norms, positive=True))), norms


@implements(aten._weight_norm_interface_backward.default)
def weight_norm_interface_backward(
    n: Numbers, grad_w: Operand, saved_v: Operand, saved_g: Operand, saved_norms: Value, dim: int
) -> tuple[Value, Value]:
    """The gradients by v, which leaves out what is along v, and by g."""
    grad, v, norms = (n.settled(n.operand(x)) for x in (grad_w, saved_v, saved_norms))
    along = n.total(n.mul(grad, v), others(v, dim % len(v.shape)), keepdim=True)
    by_g = n.settled(n.div(along, norms, positive=True))
    across = n.sub(grad, n.mul(v, n.settled(n.div(by_g, norms, positive=True))))
    return n.mul(across, n.settled(n.div(saved_g, norms, positive=True))), by_g
