"""Rows of a table by public or secret numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...table import implements
from ..linalg.vector_norm import linalg_vector_norm

aten = torch.ops.aten


@implements(aten.embedding.default)
def embedding(
    n: Numbers,
    weight: Operand,
    indices: Value | Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Secret indices: a one-hot product with the whole table. Public ones: local."""
    if isinstance(indices, Value):
        return n.rows(weight, indices)
    assert isinstance(weight, Value)
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
    if isinstance(indices, Value):
        if scale_grad_by_freq:
            raise UnsupportedOp("an embedding of secret indices with scale_grad_by_freq=True")
        made = n.rows_back(grad_output, indices, num_weights)
    else:
        assert isinstance(grad_output, Value)
        grad = _by_frequency(n, grad_output, indices) if scale_grad_by_freq else grad_output
        made = _added(n, grad, indices, num_weights)
    if not 0 <= padding_idx < num_weights:
        return made
    kept = (torch.arange(num_weights) != padding_idx).to(torch.int64).unsqueeze(1)
    return n.mul(made, kept)


@implements(aten.embedding_renorm.default)
def embedding_renorm(
    n: Numbers, self: Value, indices: Value | Tensor, max_norm: float, norm_type: float
) -> Value:
    """The table with the rows of public numbers shortened to max_norm where they are longer."""
    if isinstance(indices, Value):
        raise UnsupportedOp(
            "an embedding of secret indices with max_norm: which rows it shortens is secret; "
            "leave max_norm out, or renormalise the whole table"
        )
    rows = indices.unique()
    chosen = n.settled(self.map(lambda part: part[rows]))
    norms = n.settled(linalg_vector_norm(n, chosen, norm_type, [1], keepdim=True))
    factor = n.div(max_norm, n.add(norms, 1e-7), positive=True)
    shortened = n.mul(chosen, n.where(n.less(max_norm, norms), factor, 1.0))
    return n.joined(
        [self, shortened], lambda parts: parts[0].index_copy(0, rows.to(n.device), parts[1])
    )


def _added(n: Numbers, grad: Value, indices: Tensor, num_weights: int) -> Value:
    zeros = torch.zeros(num_weights, grad.shape[-1], dtype=grad.dtype)
    places, width = indices.flatten().to(n.device), grad.shape[-1]
    return n.joined(
        [zeros, grad],
        lambda parts: parts[0].index_add(0, places, parts[1].reshape(-1, width)),
        adds=True,
    )


def _by_frequency(n: Numbers, grad: Value, indices: Tensor) -> Value:
    counts = indices.flatten().bincount()[indices]
    return n.mul(grad, 1.0 / counts.unsqueeze(-1))
