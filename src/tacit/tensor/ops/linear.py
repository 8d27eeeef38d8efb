"""Matrix products and what is made of them."""

from __future__ import annotations

import torch

from ...fixedpoint import Numbers, Operand, Value
from ..table import implements

aten = torch.ops.aten


@implements(aten.mm.default)
def mm(n: Numbers, self: Operand, mat2: Operand) -> Value:
    return n.matmul(self, mat2)


@implements(aten.bmm.default)
def bmm(n: Numbers, self: Operand, mat2: Operand) -> Value:
    return n.matmul(self, mat2)


@implements(aten.addmm.default)
def addmm(
    n: Numbers, self: Operand, mat1: Operand, mat2: Operand, *, beta: float = 1, alpha: float = 1
) -> Operand:
    product = n.matmul(mat1, mat2) if _secret(mat1, mat2) else torch.mm(mat1, mat2)  # type: ignore[arg-type]
    if alpha != 1:
        product = n.mul(product, alpha)
    return n.add(product, self if beta == 1 else n.mul(self, beta))


def _secret(*operands: Operand) -> bool:
    return any(isinstance(x, Value) for x in operands)
