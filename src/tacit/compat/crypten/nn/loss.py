"""Losses. A plain argument beside a secret one counts as party 0's, and becomes secret."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ....errors import UnsupportedError
from ..cryptensor import CrypTensor, MPCTensor
from ..refused_call import RefusedAssertion
from ..wrapping import unwrapped
from .base_module import Module, wrapped


class Loss(Module):
    """A loss of predictions and targets of the same size.

    reduction: "mean", "sum" or "none". skip_forward: ignored; the loss is computed in any case.
    """

    def __init__(self, reduction: str = "mean", skip_forward: bool = False) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise UnsupportedError(f"{reduction=}", limit="allowed are 'mean', 'sum' and 'none'")
        self.reduction, self.skip_forward = reduction, skip_forward

    def forward(self, x: Any, y: Any) -> Any:
        """Returns the loss of predictions x with targets y."""
        if any(isinstance(one, CrypTensor) for one in (x, y)):
            x, y = (MPCTensor(one) if isinstance(one, torch.Tensor) else one for one in (x, y))
        if x.shape != y.shape:
            raise RefusedAssertion(
                f"predictions of shape {tuple(x.shape)} and targets of shape {tuple(y.shape)}"
            )
        return wrapped(self.compute(*_reals(x, y)))

    def compute(self, x: Any, y: Any) -> Any:
        """Returns torch's loss; subclasses define it."""
        raise NotImplementedError


class MSELoss(Loss):
    """(x - y)^2."""

    def compute(self, x: Any, y: Any) -> Any:
        """Returns the squared error."""
        return functional.mse_loss(x, y, reduction=self.reduction)


class L1Loss(Loss):
    """|x - y|."""

    def compute(self, x: Any, y: Any) -> Any:
        """Returns the absolute error."""
        return functional.l1_loss(x, y, reduction=self.reduction)


class BCELoss(Loss):
    """-y log x - (1 - y) log(1 - x), for probabilities x."""

    def compute(self, x: Any, y: Any) -> Any:
        """Returns the cross entropy of bits."""
        return functional.binary_cross_entropy(x, y, reduction=self.reduction)


class BCEWithLogitsLoss(Loss):
    """BCELoss of sigmoid(x)."""

    def compute(self, x: Any, y: Any) -> Any:
        """Returns the cross entropy of bits."""
        return functional.binary_cross_entropy_with_logits(x, y, reduction=self.reduction)


class CrossEntropyLoss(Loss):
    """-sum_c y_c log softmax(x)_c. Targets are one-hot, or probabilities of classes."""

    def compute(self, x: Any, y: Any) -> Any:
        """Returns the cross entropy of classes; dimensions of size 1 do not count."""
        return functional.cross_entropy(x.squeeze(), y.squeeze(), reduction=self.reduction)


class RAPPORLoss(Loss):
    """BCELoss of r = alpha p + (1 - alpha) (1 - p), p = sigmoid(x): for labels by RAPPOR."""

    def __init__(self, alpha: float, reduction: str = "mean", skip_forward: bool = False) -> None:
        super().__init__(reduction, skip_forward)
        self.alpha = alpha

    def compute(self, x: Any, y: Any) -> Any:
        """Returns the cross entropy of bits that were flipped at random."""
        p = x.sigmoid()
        answer = self.alpha * p + (1 - self.alpha) * (1 - p)
        return functional.binary_cross_entropy(answer, y, reduction=self.reduction)


def _reals(*tensors: Any) -> list[Any]:
    """Returns torch's tensors; integers become reals."""
    return [one if one.is_floating_point() else one.float() for one in unwrapped(tensors)]
