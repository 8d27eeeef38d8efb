"""Matrix products, and sums with them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ....errors import ConfigError
from ....fixedpoint import Numbers, Operand
from ....protocols import Einsum
from ...operand import Array, mapped, times
from ...table import implements

aten = torch.ops.aten


@implements(aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default, aten.vdot.default)
def matmul(n: Numbers, self: Array, other: Array) -> Array:
    """The product of matrices or vectors; the division of the result is pending.

    Two public operands are multiplied in the ring as well: BLAS rounds differently on each machine.
    """
    inner, rows = self.shape[-1], other.shape[-2:][0]
    if inner != rows:  # a protocol would name the shapes of what it multiplies
        shapes = f"{tuple(self.shape)} and {tuple(other.shape)}"
        raise ConfigError(f"matmul of {shapes}: {inner} != {rows}")
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
    n: Numbers, self: Array, mat1: Array, mat2: Array, *, beta: float = 1, alpha: float = 1
) -> Operand:
    """beta self + alpha mat1 @ mat2; one division for the product and the sum."""
    return _plus(n, self, matmul(n, mat1, mat2), beta, alpha)


@implements(aten.addmv.default)
def addmv(
    n: Numbers, self: Array, mat: Array, vec: Array, *, beta: float = 1, alpha: float = 1
) -> Operand:
    """beta self + alpha mat @ vec."""
    return _plus(n, self, matmul(n, mat, vec), beta, alpha)


@implements(aten.baddbmm.default)
def baddbmm(
    n: Numbers, self: Array, batch1: Array, batch2: Array, *, beta: float = 1, alpha: float = 1
) -> Operand:
    """beta self + alpha batch1 @ batch2, for each matrix of the batch."""
    return _plus(n, self, matmul(n, batch1, batch2), beta, alpha)


@implements(aten.addbmm.default)
def addbmm(
    n: Numbers, self: Array, batch1: Array, batch2: Array, *, beta: float = 1, alpha: float = 1
) -> Operand:
    """The sum of the batch's products is one product of matrices side by side."""
    left = mapped(batch1, lambda x: x.permute(1, 0, 2).flatten(1))
    right = mapped(batch2, lambda x: x.flatten(0, 1))
    return _plus(n, self, matmul(n, left, right), beta, alpha)


@implements(aten.addr.default)
def addr(
    n: Numbers, self: Array, vec1: Array, vec2: Array, *, beta: float = 1, alpha: float = 1
) -> Operand:
    """beta self + alpha times the outer product of two vectors."""
    return _plus(n, self, matmul(n, _column(vec1), _row(vec2)), beta, alpha)


@implements(aten._trilinear.default)
def trilinear(
    n: Numbers,
    i1: Array,
    i2: Array,
    i3: Array,
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


def _contracted(n: Numbers, equation: str, a: Array, b: Array) -> Array:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        a = n.operand(a)
    return n.bilinear(Einsum(equation), a, b)


def _plus(n: Numbers, self: Array, product: Array, beta: float, alpha: float) -> Operand:
    """beta self + alpha product, while the division of the product is pending."""
    product = product if alpha == 1 else times(n, product, alpha)
    if beta == 0:
        return product
    return n.add(self if beta == 1 else times(n, self, beta), product)


def _row(x: Array) -> Array:
    return mapped(x, lambda part: part.unsqueeze(-2))


def _column(x: Array) -> Array:
    return mapped(x, lambda part: part.unsqueeze(-1))
