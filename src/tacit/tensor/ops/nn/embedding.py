"""Rows of a table by public or secret indices; sums and means of bags of rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....errors import ConfigError, UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...operand import Array, require_indices
from ...table import implements
from ..linalg.norms import linalg_vector_norm

aten = torch.ops.aten

MEAN, MAX = 1, 2  # torch's numbers of the modes of bags; 0 is the sum


@implements(aten.embedding.default)
def embedding(
    n: Numbers,
    weight: Array,
    indices: Value | Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Secret indices: a one-hot product with the whole table, 0 for one that is no row. Public
    ones: local."""
    if len(weight.shape) != 2:
        raise ConfigError(
            f"embedding with a table of shape {tuple(weight.shape)}", limit="a table is a matrix"
        )
    if isinstance(indices, Value):
        return n.take_rows(weight, indices)
    assert isinstance(weight, Value)
    require_indices(indices, weight.shape[0], "an index")
    return weight.map(lambda part: part[indices])


@implements(aten.embedding_dense_backward.default)
def embedding_dense_backward(
    n: Numbers,
    grad_output: Operand,
    indices: Value | Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Value:
    """The gradient by the table: each row is the sum of the gradients of its uses."""
    if isinstance(indices, Value):
        if scale_grad_by_freq:
            raise UnsupportedOp("an embedding of secret indices with scale_grad_by_freq=True")
        made = n.take_rows_backward(grad_output, indices, num_weights)
    else:
        assert isinstance(grad_output, Value)
        grad = _by_frequency(n, grad_output, indices) if scale_grad_by_freq else grad_output
        made = _added(n, grad, indices, num_weights)
    if not 0 <= padding_idx < num_weights:
        return made
    not_padding = (torch.arange(num_weights) != padding_idx).to(torch.int64).unsqueeze(1)
    return n.mul(made, not_padding)


@implements(aten.embedding_renorm.default)
def embedding_renorm(
    n: Numbers, self: Value, indices: Value | Tensor, max_norm: float, norm_type: float
) -> Value:
    """The table with the rows of public numbers shortened to max_norm where they are longer."""
    if isinstance(indices, Value):
        raise UnsupportedOp(
            "an embedding of secret indices with max_norm",
            limit="which rows it shortens is secret",
            remedy="leave max_norm out, or renormalise the whole table",
        )
    rows = indices.unique()
    chosen = n.settled(self.map(lambda part: part[rows]))
    norms = n.settled(linalg_vector_norm(n, chosen, norm_type, [1], keepdim=True))
    factor = n.div(max_norm, n.add(norms, 1e-7), positive=True)
    shortened = n.mul(chosen, n.where(n.less(max_norm, norms), factor, 1.0))
    return n.combined(
        [self, shortened], lambda parts: parts[0].index_copy(0, rows.to(n.device), parts[1])
    )


def _added(n: Numbers, grad: Value, indices: Tensor, num_weights: int) -> Value:
    zeros = torch.zeros(num_weights, grad.shape[-1], dtype=grad.dtype)
    places, width = indices.flatten().to(n.device), grad.shape[-1]
    return n.combined(
        [zeros, grad],
        lambda parts: parts[0].index_add(0, places, parts[1].reshape(-1, width)),
        adds=True,
    )


def _by_frequency(n: Numbers, grad: Value, indices: Tensor) -> Value:
    counts = indices.flatten().bincount()[indices]
    return n.mul(grad, 1.0 / counts.unsqueeze(-1))


# Bags of rows ------------------------------------------------------------------------------------


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
            "an embedding bag of secret indices, or of maxima",
            remedy="use nn.Embedding, then sum or amax",
        )
    require_indices(indices, weight.shape[0], "an index")  # type: ignore[union-attr]
    starts = offsets[:-1] if include_last_offset else offsets
    sizes = torch.diff(starts, append=torch.tensor([len(indices)]))
    bags = torch.repeat_interleave(torch.arange(len(starts)), sizes)
    seen = indices != padding_idx
    counts = torch.zeros(len(starts), dtype=torch.int64).index_add(0, bags, seen.to(torch.int64))
    rows = _weighted(n, _taken_rows(n, weight, indices), per_sample_weights)
    made = _summed_rows(n, rows, bags, seen, len(starts))
    made = n.mul(made, _mean_weights(counts).to(made.dtype)) if mode == MEAN else made
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
    """The gradient by the table, for public indices. Local but for weights."""
    if sparse or scale_grad_by_freq:
        raise UnsupportedOp("an embedding bag with sparse=True or scale_grad_by_freq=True")
    each = n.operand(grad)
    each = n.mul(each, _mean_weights(bag_size).to(each.dtype)) if mode == MEAN else each
    rows = _weighted(n, _taken_rows(n, each, offset2bag), per_sample_weights)
    return _summed_rows(n, rows, indices, indices != padding_idx, num_weights)


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
    """The gradient by the weight of each row in its bag."""
    products = n.mul(_taken_rows(n, grad, offset2bag), _taken_rows(n, weight, indices))
    seen = (indices != padding_idx).to(torch.int64)
    return n.mul(n.total(products, [-1]), seen)


def _taken_rows(n: Numbers, x: Operand, indices: Tensor) -> Value:
    return n.operand(x).map(lambda part: part[indices])


def _weighted(n: Numbers, rows: Value, weights: Any) -> Value:
    if weights is None:
        return rows
    if isinstance(weights, Value):
        return n.mul(rows, weights.map(lambda part: part.unsqueeze(-1)))
    return n.mul(rows, weights.unsqueeze(-1))


def _mean_weights(counts: Tensor) -> Tensor:
    return 1.0 / counts.clamp_min(1).to(torch.float64).unsqueeze(-1)


def _summed_rows(n: Numbers, rows: Value, places: Tensor, seen: Tensor, count: int) -> Value:
    """The sums of the rows that count (`seen`), by place."""
    zeros, chosen = torch.zeros(count, rows.shape[-1], dtype=rows.dtype), places[seen]
    return n.combined(
        [zeros, rows.map(lambda part: part[seen])],
        lambda parts: parts[0].index_add(0, chosen.to(n.device), parts[1]),
        adds=True,
    )
