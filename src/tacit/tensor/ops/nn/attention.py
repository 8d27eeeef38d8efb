"""Attention and transformer layers that arrive as one operation."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor

from ....errors import ConfigError, UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.lazy import Deferred
from ...operand import Array, mapped
from ...table import implements

aten = torch.ops.aten


@implements(aten._scaled_dot_product_flash_attention_for_cpu.default)
def scaled_dot_product(
    n: Numbers,
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """The result, and a placeholder for log-sum-exp that keeps the weights for the gradient."""
    if dropout_p:
        raise UnsupportedOp(
            "attention with dropout in one operation", remedy="use the math backend"
        )
    _check_shapes(query, key, value)
    q = n.operand(query)
    k, v = (n.repeat_heads(n.operand(x), q) for x in (key, value))
    mask = _causal(q, k) if is_causal else attn_mask
    result, weights = n.attention(q, k, v, mask, _scale(q, scale))

    def logsumexp() -> Value:
        raise UnsupportedOp("the logarithms of attention's sums are not computed")

    none = Deferred(logsumexp, q.shape[:-1], q.dtype, {"weights": weights})
    return result, none


def _check_shapes(query: Array, key: Array, value: Array) -> None:
    """Raises ConfigError with the program's shapes; a protocol would name those of products."""
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
        raise ConfigError(
            f"attention of query, key and value of shapes {shapes}",
            limit="a query is as long as a key, and there are as many keys as values",
        )


@implements(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def scaled_dot_product_backward(
    n: Numbers,
    grad_out: Array,
    query: Array,
    key: Array,
    value: Array,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Value, Value, Value]:
    """The gradients by query, key and value, with the weights that the forward pass saved."""
    grad, q = n.operand(grad_out), n.operand(query)
    k, v = (n.repeat_heads(n.operand(x), q) for x in (key, value))
    weights = logsumexp.saved["weights"]
    by_q, by_k, by_v = n.attention_backward(grad, q, k, v, weights, out, _scale(q, scale))
    return by_q, n.sum_repeated_heads(by_k, key.shape), n.sum_repeated_heads(by_v, value.shape)


@implements(aten._native_multi_head_attention.default)
def native_multi_head_attention(
    n: Numbers,
    query: Value,
    key: Value,
    value: Value,
    embed_dim: int,
    num_head: int,
    qkv_weight: Array,
    qkv_bias: Array,
    proj_weight: Array,
    proj_bias: Array,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Value, Operand]:
    """Self-attention or cross-attention, with the projections before and after it."""
    inputs = [n.operand(x) for x in (query, key, value)]
    if inputs[0] is inputs[1] is inputs[2]:
        parts = _thirds(_linear(n, inputs[0], qkv_weight, qkv_bias), -1)
    else:
        pairs = zip(_thirds(qkv_weight, 0), _thirds(qkv_bias, 0), strict=True)
        parts = [_linear(n, x, w, b) for x, (w, b) in zip(inputs, pairs, strict=True)]
    q, k, v = (n.split_heads(x, num_head) for x in parts)
    hidden = _hidden(mask, mask_type, q, k)
    result, weights = n.attention(q, k, v, hidden, _scale(q, None))
    made = _linear(n, n.join_heads(result), proj_weight, proj_bias)
    if not need_weights:
        return made, torch.empty(0)
    return made, n.mean(weights, [1]) if average_attn_weights else weights


@implements(aten._transformer_encoder_layer_fwd.default)
def transformer_encoder_layer_fwd(
    n: Numbers,
    src: Value,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Array,
    qkv_bias: Array,
    proj_weight: Array,
    proj_bias: Array,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Array,
    norm_bias_1: Array,
    norm_weight_2: Array,
    norm_bias_2: Array,
    ffn_weight_1: Array,
    ffn_bias_1: Array,
    ffn_weight_2: Array,
    ffn_bias_2: Array,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Value:
    """nn.TransformerEncoderLayer in evaluation."""

    def attend(x: Value) -> Value:
        projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return native_multi_head_attention(
            n, x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type
        )[0]

    def feed(x: Value) -> Value:
        inner = _linear(n, x, ffn_weight_1, ffn_bias_1)
        active = n.gelu(inner) if use_gelu else n.relu(inner)[0]
        return _linear(n, active, ffn_weight_2, ffn_bias_2)

    def normalised(x: Value, weight: Array, bias: Array) -> Value:
        normal = n.normalise(x, [len(x.shape) - 1], eps)
        return n.add(n.mul(normal.value, weight), bias)

    x = n.operand(src)
    if norm_first:
        x = n.settled(n.add(x, attend(n.settled(normalised(x, norm_weight_1, norm_bias_1)))))
        return n.add(x, feed(n.settled(normalised(x, norm_weight_2, norm_bias_2))))
    x = n.settled(normalised(n.add(x, attend(x)), norm_weight_1, norm_bias_1))
    return normalised(n.add(x, feed(x)), norm_weight_2, norm_bias_2)


@implements(aten._nested_tensor_from_mask_left_aligned.default)
def nested_tensor_from_mask_left_aligned(n: Numbers, t: Value, mask: Tensor) -> bool:
    """False: there are no nested secret tensors. nn.TransformerEncoder then uses the mask."""
    return False


def _scale(query: Value, scale: float | None) -> float:
    return 1 / sqrt(query.shape[-1]) if scale is None else scale


def _causal(query: Value, key: Value) -> Tensor:
    later = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).triu(1)
    return _hiding(later)


def _hidden(mask: Tensor | None, kind: int | None, query: Value, key: Value) -> Tensor | None:
    """The mask of a fused layer, where not 0 means hidden, as numbers to add to the scores.

    kind: 0 for (L, S), 1 for the padding of (batch, S), 2 for (batch, heads, L, S).
    """
    if mask is None:
        return None
    hidden = mask != 0
    if kind == 1 or (kind is None and hidden.shape == (query.shape[0], key.shape[-2])):
        hidden = hidden[:, None, None, :]
    return _hiding(hidden)


def _hiding(hidden: Tensor) -> Tensor:
    return torch.zeros(hidden.shape).masked_fill(hidden, float("-inf"))


def _linear(n: Numbers, x: Value, weight: Array, bias: Array | None) -> Value:
    product = n.matmul(x, mapped(weight, lambda part: part.transpose(-1, -2)))
    return product if bias is None else n.add(product, bias)


def _thirds(x: Array, dim: int) -> list[Any]:
    size = x.shape[dim] // 3
    return [
        mapped(x, lambda part, i=i: part.narrow(dim, i * size, size))  # type: ignore[misc]
        for i in range(3)
    ]
