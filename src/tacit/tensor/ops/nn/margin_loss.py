"""Margin losses over classes with public labels."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...table import implements
from .loss import MEAN, SUM

aten = torch.ops.aten

Known = Value | Tensor


@implements(aten.multi_margin_loss.default)
def multi_margin_loss(
    n: Numbers,
    self: Value,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Known | None = None,
    reduction: int = MEAN,
) -> Value:
    """The mean over classes of max(margin - score of the label + score, 0)^p."""
    over, _ = _excess(n, self, target, margin)
    terms = over if p == 1 else n.square(over)
    losses = n.mul(n.total(n.mul(terms, _weights(n, self, target, weight)), [-1]), _share(self))
    if reduction == MEAN:
        return n.mean(losses)
    if reduction == SUM:
        return n.total(losses)
    return losses.map(lambda part: part.reshape(target.shape))


@implements(aten.multi_margin_loss_backward.default)
def multi_margin_loss_backward(
    n: Numbers,
    grad_output: Operand,
    self: Value,
    target: Tensor,
    p: float,
    margin: float,
    weight: Known | None = None,
    reduction: int = MEAN,
) -> Value:
    over, positive = _excess(n, self, target, margin)
    weights, labels = _weights(n, self, target, weight), _labels(self, target)
    slope = n.mul(positive, weights) if p == 1 else n.mul(n.mul(over, 2), weights)
    slope = n.sub(slope, n.mul(n.total(slope, [-1], keepdim=True), labels))
    grad = n.mul(slope, _share(self))
    if reduction == MEAN:
        grad = n.mul(grad, 1 / max(labels.shape[0], 1))
    given = n.operand(grad_output)
    if reduction not in (MEAN, SUM):
        given = given.map(lambda part: part.reshape(-1, 1))
    return n.mul(grad, given).map(lambda part: part.reshape(self.shape))


def _excess(n: Numbers, x: Value, target: Tensor, margin: float) -> tuple[Value, Value]:
    """max(margin - score of the label + score, 0) of the other classes, and where it is not 0."""
    if not isinstance(target, Tensor):
        raise UnsupportedOp("multi_margin_loss of secret labels: give public ones")
    rows = x.map(lambda part: part.reshape(-1, part.shape[-1] if part.dim() else 1))
    others = 1 - _labels(x, target)
    right = n.total(n.mul(rows, 1 - others), [-1], keepdim=True)
    value, bit = n.relu(n.add(n.sub(rows, right), margin))
    return n.mul(value, others), n.logical_and(bit, others)


def _labels(x: Value, target: Tensor) -> Tensor:
    classes = x.shape[-1] if x.shape else 1
    return torch.nn.functional.one_hot(target.reshape(-1), classes)


def _weights(n: Numbers, x: Value, target: Tensor, weight: Known | None) -> Operand:
    """Of each row: that of its label."""
    if weight is None:
        return 1
    if isinstance(weight, Value):
        return weight.map(lambda part: part[target.reshape(-1)].unsqueeze(-1))
    return weight[target.reshape(-1)].unsqueeze(-1)


def _share(x: Value) -> float:
    return 1 / (x.shape[-1] if x.shape else 1)
