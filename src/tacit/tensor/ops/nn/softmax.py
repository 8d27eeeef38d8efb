"""Softmax, log-softmax and log-sum-exp, with gradients that compute no exponential again."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ....fixedpoint import Numbers, Operand, Value
from ....ring import deterministic
from ...table import implements

aten = torch.ops.aten


@implements(aten._softmax.default, aten._safe_softmax.default)
def softmax(
    n: Numbers,
    self: Value,
    dim: int,
    half_to_float: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    """e^x over the sum along a dimension, after the largest is subtracted."""
    value = n.softmax(self, dim) if self.shape.numel() else self
    return value if dtype is None else n.convert(value, dtype)


@implements(aten._softmax_backward_data.default)
def softmax_backward(
    n: Numbers, grad_output: Operand, output: Value, dim: int, input_dtype: torch.dtype
) -> Value:
    """y (g - sum of g y)."""
    return n.mul(
        output,
        n.sub(grad_output, n.sum(n.mul(grad_output, output), _dims(output, dim), keepdim=True)),
    )


@implements(aten._log_softmax.default)
def log_softmax(n: Numbers, self: Value, dim: int, half_to_float: bool) -> Value:
    """x - ln of the sum of e^x. Lazy: a loss that nothing reads costs no logarithm."""
    return n.log_softmax(self, dim) if self.shape.numel() else self


@implements(aten._log_softmax_backward_data.default)
def log_softmax_backward(
    n: Numbers, grad_output: Operand, output: Value, dim: int, input_dtype: torch.dtype
) -> Value:
    """g - softmax times the sum of g."""
    saved = output.saved
    if "powers" in saved:
        probability = n.softmax_of_powers(saved["powers"], saved["total"])
    else:
        probability = n.exp(output)
    dims = _dims(output, dim)
    if isinstance(grad_output, Value):
        total: Operand = n.sum(grad_output, dims, keepdim=True)
    else:
        total = deterministic.total(torch.as_tensor(grad_output), dims, keepdim=True)
    return n.sub(grad_output, n.mul(probability, total))


@implements(aten.logsumexp.default)
def logsumexp(n: Numbers, self: Value, dim: Sequence[int], keepdim: bool = False) -> Value:
    """ln of the sum of e^x over dimensions."""
    rank = len(self.shape)
    if not rank:
        return self
    dims = sorted({d % rank for d in dim}) or list(range(rank))
    rest = [d for d in range(rank) if d not in dims]
    order = [*rest, *dims]
    outer = [self.shape[d] for d in rest]
    flat = self.map(lambda part: part.permute(order).reshape(*outer, -1))
    value = n.logsumexp(flat, -1)
    form = [1 if d in dims else size for d, size in enumerate(self.shape)]
    return value.map(lambda part: part.reshape(form if keepdim else outer))


def _dims(x: Value, dim: int) -> tuple[int, ...]:
    return (dim,) if x.shape else ()
