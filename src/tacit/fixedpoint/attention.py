"""Attention: each query's mean of values, weighted by how well their keys fit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..protocols import MATMUL, Einsum
from .arithmetic import add, mul, sub
from .conversion import settled
from .format import Format
from .functions.softmax import softmax
from .linear import bilinears, matmul
from .reduce import total
from .value import Value

# Shapes: (..., L, E) queries, (..., S, E) keys, (..., S, V) values, (..., L, S) weights.


def attention(
    n: Format, query: Value, key: Value, value: Value, mask: Value | Tensor | None, scale: float
) -> tuple[Value, Value]:
    """softmax(query key^T scale + mask) value, and the weights. Two products and a softmax.

    The mask is added: -inf in a public one hides a key, and where it hides all the result is 0.
    """
    scores = mul(n, matmul(n, query, _turned(key)), scale)
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
    """The gradients by query, key and value. Three products one after the other.

    The sum over keys of a weight times its gradient is that of the result times its gradient.
    """
    grad, weights = settled(n, grad), settled(n, weights)
    names = "abcdefgh"[: len(grad.shape)]
    by_value, by_weights, along = bilinears(
        n,
        [
            (MATMUL, _turned(weights), grad),
            (MATMUL, grad, _turned(value)),
            (Einsum(f"{names},{names}->{names[:-1]}"), grad, result),
        ],
    )
    along = along.map(lambda part: part.unsqueeze(-1))
    by_scores = mul(n, mul(n, weights, settled(n, sub(n, by_weights, along))), scale)
    by_scores = settled(n, by_scores)
    by_query, by_key = bilinears(n, [(MATMUL, by_scores, key), (MATMUL, _turned(by_scores), query)])
    return by_query, by_key, by_value


def split_heads(x: Value, count: int) -> Value:
    """(batch, length, features) as (batch, heads, length, features of a head)."""
    return x.map(lambda part: part.unflatten(-1, (count, -1)).transpose(1, 2))


def join_heads(x: Value) -> Value:
    return x.map(lambda part: part.transpose(1, 2).flatten(2))


def for_each_head(x: Value, query: Value) -> Value:
    """Keys or values with a head for each of the query's: groups of those have one in common."""
    if len(x.shape) < 4 or x.shape[-3] == query.shape[-3]:
        return x
    count = query.shape[-3] // x.shape[-3]
    return x.map(lambda part: part.repeat_interleave(count, -3))


def over_heads(n: Format, grad: Value, shape: Sequence[int]) -> Value:
    """The gradient by what had this shape before `for_each_head`."""
    if tuple(grad.shape) == tuple(shape):
        return grad
    groups = grad.map(lambda part: part.unflatten(-3, (shape[-3], -1)))
    return total(n, groups, [-3])


def _turned(x: Value) -> Value:
    return x.map(lambda part: part.transpose(-1, -2))
