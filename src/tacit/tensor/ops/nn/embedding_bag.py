"""Sums and means of bags of rows of a table, by public numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten

MEAN, MAX = 1, 2  # torch's numbers of the modes; 0 is the sum


@implements(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    n: Numbers,
    weight: Operand,
    indices: Tensor | Value,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value, Tensor, Tensor, Tensor]:
    """The results; the bag of each index and the sizes of the bags, for the gradient."""
    if isinstance(indices, Value) or mode == MAX:
        raise UnsupportedOp(
            "an embedding bag of secret indices, or of maxima: take nn.Embedding, then sum or amax"
        )
    starts = offsets[:-1] if include_last_offset else offsets
    sizes = torch.diff(starts, append=torch.tensor([len(indices)]))
    bags = torch.repeat_interleave(torch.arange(len(starts)), sizes)
    seen = indices != padding_idx
    counts = torch.zeros(len(starts), dtype=torch.int64).index_add(0, bags, seen.to(torch.int64))
    rows = _weighted(n, _rows(n, weight, indices), per_sample_weights)
    made = _gathered(n, rows, bags, seen, len(starts))
    made = n.mul(made, _shares(counts).to(made.dtype)) if mode == MEAN else made
    return made, bags, counts, torch.empty(0, dtype=torch.int64)


@implements(aten._embedding_bag_backward.default)
def embedding_bag_backward(
    n: Numbers,
    grad: Operand,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    padding_idx: int = -1,
) -> Value:
    if sparse or scale_grad_by_freq:
        raise UnsupportedOp("an embedding bag with sparse=True or scale_grad_by_freq=True")
    each = n.operand(grad)
    each = n.mul(each, _shares(bag_size).to(each.dtype)) if mode == MEAN else each
    rows = _weighted(n, _rows(n, each, offset2bag), per_sample_weights)
    return _gathered(n, rows, indices, indices != padding_idx, num_weights)


@implements(aten._embedding_bag_per_sample_weights_backward.default)
def embedding_bag_per_sample_weights_backward(
    n: Numbers,
    grad: Operand,
    weight: Operand,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Value:
    products = n.mul(_rows(n, grad, offset2bag), _rows(n, weight, indices))
    seen = (indices != padding_idx).to(torch.int64)
    return n.mul(n.total(products, [-1]), seen)


def _rows(n: Numbers, x: Operand, indices: Tensor) -> Value:
    return n.operand(x).map(lambda part: part[indices])


def _weighted(n: Numbers, rows: Value, weights: Any) -> Value:
    if weights is None:
        return rows
    if isinstance(weights, Value):
        return n.mul(rows, weights.map(lambda part: part.unsqueeze(-1)))
    return n.mul(rows, weights.unsqueeze(-1))


def _shares(counts: Tensor) -> Tensor:
    return 1.0 / counts.clamp_min(1).to(torch.float64).unsqueeze(-1)


def _gathered(n: Numbers, rows: Value, places: Tensor, seen: Tensor, count: int) -> Value:
    """The sums of the rows that are seen, by place."""
    zeros, chosen = torch.zeros(count, rows.shape[-1], dtype=rows.dtype), places[seen]
    return n.joined(
        [zeros, rows.map(lambda part: part[seen])],
        lambda parts: parts[0].index_add(0, chosen.to(n.device), parts[1]),
        adds=True,
    )
