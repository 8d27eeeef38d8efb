"""Scaled dot-product attention, its gradients, and attention heads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..protocols import MATMUL, Einsum
from .arithmetic import add, bilinears, matmul, mul, sub
from .format import Format
from .functions.softmax import softmax
from .reduce import total
from .value import Value, settled

# Shapes: (..., L, E) queries, (..., S, E) keys, (..., S, V) values, (..., L, S) weights.


def attention(
    n: Format, query: Value, key: Value, value: Value, mask: Value | Tensor | None, scale: float
) -> tuple[Value, Value]:
    """Returns softmax(query key^T scale + mask) value, and the weights. Two products, a softmax.

    -inf in a public mask hides a key. Where a mask hides all keys, the result is 0.
    """
    scores = mul(n, matmul(n, query, _transposed(key)), scale)
    if mask is not None:
        scores = add(n, scores, mask)
    weights = softmax(n, scores, -1)
    if isinstance(mask, Tensor) and mask.is_floating_point():
        seen = (mask > float("-inf")).any(-1, keepdim=True)
        weights = weights if bool(seen.all()) else mul(n, weights, seen.to(torch.int64))
    return matmul(n, weights, value), weights


def attention_backward(
    n: Format,
    grad: Value,
    query: Value,
    key: Value,
    value: Value,
    weights: Value,
    result: Value,
    scale: float,
) -> tuple[Value, Value, Value]:
    """Returns the gradients by query, key and value. Three products in sequence.

    The gradient of a softmax needs the sum over keys of weight times its gradient, which equals the
    sum over features of result times its gradient.
    """
    grad, weights = settled(n, grad), settled(n, weights)
    names = "abcdefgh"[: len(grad.shape)]
    by_value, by_weights, along = bilinears(
        n,
        [
            (MATMUL, _transposed(weights), grad),
            (MATMUL, grad, _transposed(value)),
            (Einsum(f"{names},{names}->{names[:-1]}"), grad, result),
        ],
    )
    along = along.map(lambda part: part.unsqueeze(-1))
    by_scores = mul(n, mul(n, weights, settled(n, sub(n, by_weights, along))), scale)
    by_scores = settled(n, by_scores)
    by_query, by_key = bilinears(
        n, [(MATMUL, by_scores, key), (MATMUL, _transposed(by_scores), query)]
    )
    return by_query, by_key, by_value


def split_heads(x: Value, count: int) -> Value:
    """Returns (batch, length, features) as (batch, heads, length, features of a head). Local."""
    return x.map(lambda part: part.unflatten(-1, (count, -1)).transpose(1, 2))


def join_heads(x: Value) -> Value:
    """Returns the inverse of `split_heads`. Local."""
    return x.map(lambda part: part.transpose(1, 2).flatten(2))


def repeat_heads(x: Value, query: Value) -> Value:
    """Returns keys or values repeated, so that each query head of a group has its own. Local."""
    if len(x.shape) < 4 or x.shape[-3] == query.shape[-3]:
        return x
    count = query.shape[-3] // x.shape[-3]
    return x.map(lambda part: part.repeat_interleave(count, -3))


def sum_repeated_heads(n: Format, grad: Value, shape: Sequence[int]) -> Value:
    """Returns the gradient by the argument of `repeat_heads`, which had this shape. Local."""
    if tuple(grad.shape) == tuple(shape):
        return grad
    groups = grad.map(lambda part: part.unflatten(-3, (shape[-3], -1)))
    return total(n, groups, [-3])


def _transposed(x: Value) -> Value:
    return x.map(lambda part: part.transpose(-1, -2))
