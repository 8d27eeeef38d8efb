"""How well numbers are predicted. Mean squared and absolute errors are losses of torch."""

from __future__ import annotations

from torch import Tensor

from ..tensor.row_shapes import require_one_a_row


def r2(target: Tensor, predicted: Tensor) -> Tensor:
    """Returns 1 - (mean squared error) / (variance of the target), the coefficient R^2.

    Both means have to be below 2^20 on secrets, and the variance above 2^-8 or so.

    >>> r2(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 2.0]))
    tensor(0.5000)
    """
    require_one_a_row("r2", target, predicted=predicted)
    return 1 - (target - predicted).square().mean() / target.var(correction=0)
