"""Matrix products and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ....fixedpoint import Numbers, Operand, Value
from ....protocols import Einsum
from ...table import implements

aten = torch.ops.aten

Known = Value | Tensor


@implements(aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default, aten.vdot.default)
def matmul(n: Numbers, self: Known, other: Known) -> Known:
    """The product of matrices or vectors; the division of the result is pending.

    That of public ones is made in the ring too: BLAS differs between machines.
    """
    if isinstance(self, Tensor) and isinstance(other, Tensor):
        self = n.operand(self)
    if len(self.shape) == 1 and len(other.shape) == 1:
        product = n.matmul(_row(self), _column(other))
        return product.map(lambda part: part.reshape(()))
    if len(other.shape) == 1:
        return n.matmul(self, _column(other)).map(lambda part: part.squeeze(-1))
    return n.matmul(self, other)


@implements(aten.addmm.default)
def addmm(
    n: Numbers, self: Known, mat1: Known, mat2: Known, *, beta: float = 1, alpha: float = 1
) -> Operand:
    return _plus(n, self, matmul(n, mat1, mat2), beta, alpha)


@implements(aten.addmv.default)
def addmv(
    n: Numbers, self: Known, mat: Known, vec: Known, *, beta: float = 1, alpha: float = 1
) -> Operand:
    return _plus(n, self, matmul(n, mat, vec), beta, alpha)


@implements(aten.baddbmm.default)
def baddbmm(
    n: Numbers, self: Known, batch1: Known, batch2: Known, *, beta: float = 1, alpha: float = 1
) -> Operand:
    return _plus(n, self, matmul(n, batch1, batch2), beta, alpha)


@implements(aten.addbmm.default)
def addbmm(
    n: Numbers, self: Known, batch1: Known, batch2: Known, *, beta: float = 1, alpha: float = 1
) -> Operand:
    """The sum of the batch's products is one product of matrices side by side."""
    left = _mapped(batch1, lambda x: x.permute(1, 0, 2).flatten(1))
    right = _mapped(batch2, lambda x: x.flatten(0, 1))
    return _plus(n, self, matmul(n, left, right), beta, alpha)


@implements(aten.addr.default)
def addr(
    n: Numbers, self: Known, vec1: Known, vec2: Known, *, beta: float = 1, alpha: float = 1
) -> Operand:
    return _plus(n, self, matmul(n, _column(vec1), _row(vec2)), beta, alpha)


@implements(aten._trilinear.default)
def trilinear(
    n: Numbers,
    i1: Known,
    i2: Known,
    i3: Known,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Operand:
    """The sum over some dimensions of the product of three, each without some: two products."""
    count = len(i1.shape) + len(expand1)
    names = [
        "".join(chr(ord("a") + dim) for dim in range(count) if dim not in without)
        for without in (expand1, expand2, expand3)
    ]
    summed = {chr(ord("a") + dim) for dim in sumdim}
    both = "".join(sorted(set(names[0] + names[1]) - (summed - set(names[2]))))
    out = "".join(sorted(set("".join(names)) - summed))
    product = _contracted(n, f"{names[0]},{names[1]}->{both}", i1, i2)
    return _contracted(n, f"{both},{names[2]}->{out}", product, i3)


def _contracted(n: Numbers, equation: str, a: Known, b: Known) -> Known:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        a = n.operand(a)
    return n.bilinear(Einsum(equation), a, b)


def _plus(n: Numbers, self: Known, product: Known, beta: float, alpha: float) -> Operand:
    """beta self + alpha product, while the division of the product is pending."""
    product = product if alpha == 1 else _times(n, product, alpha)
    if beta == 0:
        return product
    return n.add(self if beta == 1 else _times(n, self, beta), product)


def _times(n: Numbers, x: Known, factor: float) -> Known:
    return n.mul(x, factor) if isinstance(x, Value) else x * factor


def _mapped(x: Known, change: Callable[[Tensor], Tensor]) -> Known:
    return x.map(change) if isinstance(x, Value) else change(x)


def _row(x: Known) -> Known:
    return _mapped(x, lambda part: part.unsqueeze(-2))


def _column(x: Known) -> Known:
    return _mapped(x, lambda part: part.unsqueeze(-1))
