"""c / x for a number c and a secret x, as a quotient.

torch computes it as c times the reciprocal of x, which multiplies the error of the reciprocal: a
unit, 2^-16, is 1.6 percent of 1 / 1000, and would be as much of 1000 / 1000.
"""

from __future__ import annotations

from math import frexp, isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .secret import SecretTensor


class NumberOverSecret(torch.autograd.Function):
    """c / x. The gradient by x is -(c / x)^2 / c: two products, as that of a reciprocal."""

    @staticmethod
    def forward(x: SecretTensor, number: float) -> Tensor:
        """Returns c / x, with the dtype that torch gives it.

        A power of two brings c between 1 and the end of the range, where it keeps its precision.
        """
        exponent = frexp(number)[1]
        excess = max(exponent - x.numbers.range_bits, 0) + min(exponent - 1, 0)
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        quotient = torch.div(torch.tensor(number / 2.0**excess, dtype=dtype), x)
        return quotient * 2.0**excess if excess else quotient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keeps the quotient for the gradient."""
        ctx.number = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Returns the gradient by x."""
        [quotient] = ctx.saved_tensors
        return grad * quotient * (quotient * (-1 / ctx.number)), None


def over(x: SecretTensor, other: Any) -> Any:
    """Returns other / x, for what Python gives `x.__rtruediv__`."""
    if not isinstance(other, int | float) or other in (0, 1) or not isfinite(other):
        return Tensor.__rtruediv__(x, other)
    return NumberOverSecret.apply(x, other)  # type: ignore[no-untyped-call]
