"""Losses by difference, by likelihood of truth values and by margin, forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import Numbers, Operand, Value
from ...operand import Array
from ...table import implements

aten = torch.ops.aten

MEAN, SUM = 1, 2


@implements(aten.mse_loss.default)
def mse_loss(n: Numbers, self: Operand, target: Operand, reduction: int = MEAN) -> Value:
    """(self - target)^2, reduced."""
    return reduced(n, n.square(n.settled(n.sub(self, target))), reduction)


@implements(aten.mse_loss_backward.default)
def mse_loss_backward(
    n: Numbers, grad_output: Operand, self: Operand, target: Operand, reduction: int
) -> Value:
    """2 grad (self - target)."""
    slope = n.mul(n.sub(self, target), 2)
    return n.mul(slope, spread(n, grad_output, slope, reduction))


@implements(aten.huber_loss.default)
def huber_loss(
    n: Numbers, self: Operand, target: Operand, reduction: int = MEAN, delta: float = 1.0
) -> Value:
    """c (d - c / 2) for the difference d and c, which is d cut at delta on both sides."""
    difference = n.settled(n.sub(self, target))
    cut = n.clamp(difference, -delta, delta)
    return reduced(n, n.mul(cut, n.sub(difference, n.mul(cut, 0.5))), reduction)


@implements(aten.huber_loss_backward.default)
def huber_loss_backward(
    n: Numbers,
    grad_output: Operand,
    self: Operand,
    target: Operand,
    reduction: int,
    delta: float,
) -> Value:
    """grad times the difference, clamped to delta."""
    cut = n.clamp(n.sub(self, target), -delta, delta)
    return n.mul(cut, spread(n, grad_output, cut, reduction))


@implements(aten.smooth_l1_loss.default)
def smooth_l1_loss(
    n: Numbers, self: Operand, target: Operand, reduction: int = MEAN, beta: float = 1.0
) -> Value:
    """The Huber loss over beta; the absolute difference where beta is 0."""
    if beta == 0:
        return reduced(n, n.absolute(n.sub(self, target)), reduction)
    return n.mul(huber_loss(n, self, target, reduction, beta), 1 / beta)


@implements(aten.smooth_l1_loss_backward.default)
def smooth_l1_loss_backward(
    n: Numbers,
    grad_output: Operand,
    self: Operand,
    target: Operand,
    reduction: int,
    beta: float,
) -> Value:
    """The gradient of the Huber loss over beta; signs where beta is 0."""
    if beta == 0:
        difference = n.sub(self, target)
        signs = n.sub(n.less(0, difference), n.convert(n.less(difference, 0), torch.int64))
        return n.mul(spread(n, grad_output, difference, reduction), signs)
    grad = huber_loss_backward(n, grad_output, self, target, reduction, beta)
    return n.mul(grad, 1 / beta)


@implements(aten.binary_cross_entropy.default)
def binary_cross_entropy(
    n: Numbers,
    self: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: int = MEAN,
) -> Value:
    """-t ln p - (1 - t) ln(1 - p); what is less than a unit of p counts as one."""
    logarithms = n.log(_with_complement(n, self))
    of_one, of_zero = _halves(logarithms)
    loss = n.neg(n.add(n.mul(target, n.sub(of_one, of_zero)), of_zero))
    return reduced(n, loss if weight is None else n.mul(loss, weight), reduction)


@implements(aten.binary_cross_entropy_backward.default)
def binary_cross_entropy_backward(
    n: Numbers,
    grad_output: Operand,
    self: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: int = MEAN,
) -> Value:
    """grad ((1 - t) / (1 - p) - t / p), where a divisor of 0 counts as a unit."""
    targets = _with_complement(n, target)
    of_one, of_zero = _halves(n.div(targets, _with_complement(n, self), positive=True))
    slope = n.sub(of_zero, of_one)
    slope = slope if weight is None else n.mul(slope, weight)
    return n.mul(slope, spread(n, grad_output, slope, reduction))


def _with_complement(n: Numbers, p: Operand) -> Value:
    """p and 1 - p, one above the other."""
    value = n.operand(p)
    return n.combined([value, n.sub(1.0, value)], torch.stack)


def _halves(x: Value) -> tuple[Value, Value]:
    return x.map(lambda part: part[0]), x.map(lambda part: part[1])


@implements(aten.binary_cross_entropy_with_logits.default)
def binary_cross_entropy_with_logits(
    n: Numbers,
    self: Operand,
    target: Operand,
    weight: Operand | None = None,
    pos_weight: Operand | None = None,
    reduction: int = MEAN,
) -> Value:
    """softplus(x) - t x; with a weight w of positives, (1 - t) softplus(x) + w t softplus(-x)."""
    x = n.operand(self)
    rising = n.softplus(x)
    if pos_weight is None:
        loss = n.sub(rising, n.mul(target, x))
    else:
        falling = n.sub(rising, x)
        positive = n.mul(falling, pos_weight)
        loss = n.add(rising, n.mul(target, n.sub(positive, rising)))
    return reduced(n, loss if weight is None else n.mul(loss, weight), reduction)


@implements(aten.soft_margin_loss.default)
def soft_margin_loss(n: Numbers, self: Operand, target: Operand, reduction: int = MEAN) -> Value:
    """ln(1 + e^(-target self)), reduced."""
    return reduced(n, n.softplus(n.neg(n.mul(self, target))), reduction)


@implements(aten.soft_margin_loss_backward.default)
def soft_margin_loss_backward(
    n: Numbers, grad_output: Operand, self: Operand, target: Operand, reduction: int
) -> Value:
    """-grad target sigmoid(-target self)."""
    slope = n.neg(n.mul(target, n.sigmoid(n.neg(n.mul(self, target)))))
    return n.mul(slope, spread(n, grad_output, slope, reduction))


# Helpers --------------------------------------------------------------------------------


def reduced(n: Numbers, loss: Value, reduction: int) -> Value:
    """The losses of all elements, or their mean or sum."""
    if reduction == MEAN:
        return n.mean(loss)
    return n.total(loss) if reduction == SUM else loss


def spread(n: Numbers, grad: Operand, like: Value, reduction: int) -> Operand:
    """The gradient of a reduced loss as that of each element."""
    if reduction != MEAN:
        return grad
    count = max(like.shape.numel(), 1)
    return n.mul(grad, 1 / count) if isinstance(grad, Value) else torch.as_tensor(grad) / count


# Margins between classes, with public labels ------------------------------------------------------


@implements(aten.multi_margin_loss.default)
def multi_margin_loss(
    n: Numbers,
    self: Value,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Array | None = None,
    reduction: int = MEAN,
) -> Value:
    """The mean over classes of max(margin - score of the label + score, 0)^p."""
    over, _ = _excess(n, self, target, margin)
    terms = over if p == 1 else n.square(over)
    losses = n.mul(
        n.total(n.mul(terms, _weights(n, self, target, weight)), [-1]), _mean_weight(self)
    )
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
    weight: Array | None = None,
    reduction: int = MEAN,
) -> Value:
    """The gradient by the scores: of the excess, less its sum at the label."""
    over, positive = _excess(n, self, target, margin)
    weights, labels = _weights(n, self, target, weight), _labels(self, target)
    slope = n.mul(positive, weights) if p == 1 else n.mul(n.mul(over, 2), weights)
    slope = n.sub(slope, n.mul(n.total(slope, [-1], keepdim=True), labels))
    grad = n.mul(slope, _mean_weight(self))
    if reduction == MEAN:
        grad = n.mul(grad, 1 / max(labels.shape[0], 1))
    given = n.operand(grad_output)
    if reduction not in (MEAN, SUM):
        given = given.map(lambda part: part.reshape(-1, 1))
    return n.mul(grad, given).map(lambda part: part.reshape(self.shape))


def _excess(n: Numbers, x: Value, target: Tensor, margin: float) -> tuple[Value, Value]:
    """max(margin - score of the label + score, 0) of the other classes, and where it is not 0."""
    if not isinstance(target, Tensor):
        raise UnsupportedOp("multi_margin_loss of secret labels", remedy="give public ones")
    rows = x.map(lambda part: part.reshape(-1, part.shape[-1] if part.dim() else 1))
    others = 1 - _labels(x, target)
    right = n.total(n.mul(rows, 1 - others), [-1], keepdim=True)
    value, bit = n.relu(n.add(n.sub(rows, right), margin))
    return n.mul(value, others), n.logical_and(bit, others)


def _labels(x: Value, target: Tensor) -> Tensor:
    classes = x.shape[-1] if x.shape else 1
    return torch.nn.functional.one_hot(target.reshape(-1), classes)


def _weights(n: Numbers, x: Value, target: Tensor, weight: Array | None) -> Operand:
    """The weight of each row: that of its label."""
    if weight is None:
        return 1
    if isinstance(weight, Value):
        return weight.map(lambda part: part[target.reshape(-1)].unsqueeze(-1))
    return weight[target.reshape(-1)].unsqueeze(-1)


def _mean_weight(x: Value) -> float:
    return 1 / (x.shape[-1] if x.shape else 1)
