"""Distances between all pairs of rows."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import UnsupportedOp
from ...fixedpoint import Numbers, Operand, Value
from ...protocols import Einsum
from ..table import implements

aten = torch.ops.aten

Known = Value | Tensor


@implements(aten._cdist_forward.default)
def cdist_forward(n: Numbers, x1: Known, x2: Known, p: float, compute_mode: int | None) -> Operand:
    """Euclidean or city-block distances; those of Euclid are below the root of the range."""
    difference = _differences(n, x1, x2)
    if p == 1:
        return n.total(n.absolute(difference), [-1])
    _check(p)
    names = _names(difference)
    squares = n.bilinear(Einsum(f"{names},{names}->{names[:-1]}"), difference, difference)
    return n.sqrt(squares)


@implements(aten._cdist_backward.default)
def cdist_backward(
    n: Numbers, grad: Operand, x1: Known, x2: Known, p: float, cdist: Value
) -> Operand:
    """The gradient by the first; 0 for pairs without a distance."""
    difference = _differences(n, x1, x2)
    names = _names(difference)
    if p == 1:
        positive, negative = n.less(0, difference), n.less(difference, 0)
        signs = n.sub(n.convert(positive, torch.int64), n.convert(negative, torch.int64))
        spread = n.operand(grad).map(lambda part: part.unsqueeze(-1))
        return n.total(n.mul(signs, spread), [-2])
    _check(p)
    ratio = n.div(grad, cdist, positive=True)
    rows = names[:-2] + names[-1]
    return n.bilinear(Einsum(f"{names[:-1]},{names}->{rows}"), ratio, difference)


def _differences(n: Numbers, x1: Known, x2: Known) -> Value:
    """Every row of x1 less every row of x2."""
    first = n.operand(x1).map(lambda part: part.unsqueeze(-2))
    second = n.operand(x2).map(lambda part: part.unsqueeze(-3))
    return n.settled(n.sub(first, second))


def _names(x: Value) -> str:
    return "abcdefghijklmnop"[: len(x.shape)]


def _check(p: float) -> None:
    if p != 2:
        raise UnsupportedOp(f"cdist with p={p} on secrets: 1 and 2 are there")
