"""Functions of torch that look at values before they compute: on secrets they do not look.

`F.gaussian_nll_loss` looks for negative variances, and `torch.cov` for weights that are negative or
sum to zero. No rule can tell such a look from one of the program. A variance or weight that torch
would refuse gives a meaningless result; debug mode looks, and refuses it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..errors import RangeError
from ..fixedpoint.debug import cleartext
from .secret import SecretTensor


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
    *,
    plain: Any,
) -> Tensor:
    """(ln v + (input - target)^2 / v) / 2 with v = max(var, eps); eps counts as a unit at least."""
    if not isinstance(var, Tensor):
        var = torch.full((1,) * input.dim(), float(var))
    plain(*(torch.ones(x.shape) for x in (input, target, var)), reduction=reduction)  # shapes fit?
    _check_sign("var", var)
    var = var.unsqueeze(-1) if var.shape == input.shape[:-1] != input.shape else var
    secret = next(x for x in (input, target, var) if isinstance(x, SecretTensor))
    least = max(eps, 2.0**-secret.numbers.fraction_bits)
    with torch.no_grad():
        low = var.clamp(min=least) - var
    var = var + low  # the gradient passes, as in torch
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
    plain: Any,
) -> Tensor:
    """The covariance of rows, whose columns count as often, or weigh as much, as weights say."""
    if not any(isinstance(x, SecretTensor) for x in (fweights, aweights)):
        return plain(input, correction=correction, fweights=fweights, aweights=aweights)
    rows = input if input.dim() == 2 else input.reshape(1, -1)
    given = [x for x in (fweights, aweights) if x is not None]
    for name, x in (("fweights", fweights), ("aweights", aweights)):
        _check_weights(name, x, rows)
    weights = given[0] * given[1] if len(given) == 2 else given[0]
    weights = weights.to(rows.dtype)
    total = weights.sum()
    count = total - correction
    if aweights is not None and correction:
        count = total - correction * (weights * aweights).sum() / total
    centred = rows - ((rows * weights).sum(1) / total).unsqueeze(1)
    return (torch.mm(centred, (centred * weights).t()) / count).squeeze()


def _check_weights(name: str, weights: Tensor | None, rows: Tensor) -> None:
    if weights is None:
        return
    if weights.dim() > 1 or weights.numel() != rows.shape[1]:
        raise RuntimeError(
            f"cov(): expected {name} to have one weight for each of {rows.shape[1]} columns"
        )
    _check_sign(name, weights)


def _check_sign(name: str, x: Tensor) -> None:
    """Raises RangeError for a negative number, if it is public or a debug session shows it."""
    if isinstance(x, SecretTensor):
        if not x.numbers.debug:
            return
        shown = cleartext(x.numbers, x.value)
    else:
        shown = x
    if bool((shown < 0).any()):
        raise RangeError(f"{name} has negative entries", limit="0 at least")
