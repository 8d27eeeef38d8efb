"""Negative log likelihood of labels, public or secret, forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ....fixedpoint.lazy import Deferred, LazyValue
from ....ring import deterministic
from ...operand import Array, mapped, require_indices
from ...table import implements
from .loss import MEAN, SUM

aten = torch.ops.aten


@implements(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss_forward(
    n: Numbers,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
) -> tuple[Operand, Operand]:
    """The loss and the weight of all labels. Public labels: local; secret ones: an equality for
    each class, and a division by their weight where a mean is taken. A secret label that is no
    class counts like one that is ignored."""
    marks = _score_weights(n, self, target, weight, ignore_index)
    total = _sum(n, marks)
    positive = weight is None
    _check_any(reduction, total)

    def loss() -> Value:
        losses = n.neg(n.total(n.mul(self, marks), [_class_dim(self)]))
        if reduction == MEAN:
            return n.operand(_over(n, n.total(losses), total, positive=positive))
        return n.total(losses) if reduction == SUM else losses

    if isinstance(self, LazyValue) and self.unread and isinstance(marks, Tensor):
        shape = () if reduction in (MEAN, SUM) else target.shape
        return Deferred(loss, shape, self.dtype), total
    return loss(), total


@implements(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    n: Numbers,
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Operand:
    """Minus the gradient at each row's label, weighted; 0 elsewhere."""
    marks = _score_weights(n, self, target, weight, ignore_index)
    grad: Operand = grad_output
    if reduction == MEAN:
        grad = _over(n, grad_output, total_weight, positive=weight is None)
    elif reduction != SUM and len(self.shape) > 1:
        grad = mapped(grad_output, lambda part: part.unsqueeze(1))
    if isinstance(marks, Tensor):
        return n.mul(grad, -marks) if isinstance(grad, Value) else -marks * grad
    return n.neg(n.mul(marks, grad))


def _class_dim(x: Array) -> int:
    return 1 if len(x.shape) > 1 else 0


def _score_weights(
    n: Numbers, scores: Array, target: Array, weight: Array | None, ignore_index: int
) -> Array:
    """The weight of each score in the loss: that of its class at the label, 0 elsewhere."""
    dim = _class_dim(scores)
    classes = torch.arange(scores.shape[dim])
    shape = [-1 if d == dim else 1 for d in range(len(scores.shape))]
    wanted = mapped(target, lambda part: part.unsqueeze(dim))
    counts = (classes != ignore_index).view(shape)
    if isinstance(target, Tensor):
        require_indices(target, len(classes), "a label", ignored=ignore_index)
        marks: Array = (wanted == classes.view(shape)) & counts
    else:
        marks = n.equal(wanted, classes.view(shape))
        marks = marks if counts.all() else n.logical_and(marks, counts)
    if weight is None:
        return marks if isinstance(marks, Value) else marks.to(scores.dtype)
    by_class = mapped(weight, lambda part: part.view(shape))
    if isinstance(marks, Tensor) and isinstance(by_class, Tensor):
        return marks * by_class
    return n.mul(marks, by_class)


def _sum(n: Numbers, marks: Array) -> Operand:
    return n.total(marks) if isinstance(marks, Value) else deterministic.total(marks)


def _over(n: Numbers, x: Array, total: Operand, *, positive: bool) -> Array:
    """x divided by the weight of all labels."""
    if isinstance(total, Value):
        return n.div(x, total, positive=positive)
    weight = float(total)
    return n.mul(x, 1 / weight) if isinstance(x, Value) else x / weight


def _check_any(reduction: int, total: Operand) -> None:
    """Raises if there is no label: the mean would not be a number."""
    if reduction == MEAN and not isinstance(total, Value) and not float(total):
        raise UnsupportedOp("nll_loss: the mean over no labels is not a number")
