"""Linear and logistic regression with standard errors, by Newton's method."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..tensor.long_loops import counted
from ..tensor.row_shapes import require_one_a_row
from ..tensor.row_sums import require_rows
from .columns import Standardised, standardise
from .elimination import inverse


class LinearFit(NamedTuple):
    """y = x @ coefficients + intercept, the standard errors of both, and R^2."""

    coefficients: Tensor
    intercept: Tensor
    coefficient_errors: Tensor
    intercept_error: Tensor
    r2: Tensor


class LogisticFit(NamedTuple):
    """P(y = 1) = sigmoid(x @ coefficients + intercept), and the standard errors of both."""

    coefficients: Tensor
    intercept: Tensor
    coefficient_errors: Tensor
    intercept_error: Tensor


def linear_regression(x: Tensor, y: Tensor) -> LinearFit:
    """Returns the least squares fit of y, of shape (n,), by the columns of x, of shape (n, p).

    Everything is fitted to standardised columns, and the result scaled back: see `standardise` for
    their range. Errors on secrets grow with the correlation of the columns: 2^-13 of a coefficient
    of standardised columns times the condition number of their correlation matrix. About 7 p + 90
    rounds of `trio`. A t statistic is coefficient / error, with n - p - 1 degrees of freedom.

    >>> x = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    >>> linear_regression(x, torch.tensor([3.0, 5.0, 7.0, 10.0])).coefficients
    tensor([2.3000])
    """
    require_one_a_row("linear_regression", x[:, 0], y=y)
    require_rows("linear_regression", x, y)
    rows, size = x.shape
    z, target = standardise(x), standardise(y)
    inverse_gram = inverse(z.columns.mT @ z.columns / rows)
    fitted = inverse_gram @ (z.columns.mT @ target.columns / rows)
    unexplained = (target.columns - z.columns @ fitted).square().mean()
    noise = target.deviation * unexplained.sqrt()
    slopes, errors, centre = _unscaled(fitted, inverse_gram.diagonal().sqrt(), z)
    intercept_error = (1 + centre @ (inverse_gram @ centre)).sqrt()
    coefficients, freedom = slopes * target.deviation, (rows - size - 1) ** 0.5
    return LinearFit(
        coefficients,
        target.mean - z.mean @ coefficients,
        noise * errors / freedom,
        noise * intercept_error / freedom,
        1 - unexplained,
    )


def logistic_regression(
    x: Tensor, y: Tensor, *, penalty: float = 0.0, steps: int = 8
) -> LogisticFit:
    """Returns the most likely fit of the labels y, 0 or 1 of shape (n,), by the columns of x.

    `steps` of Newton's method on standardised columns; 8 are enough unless the classes can almost
    be separated. If they can, a penalty helps: penalty / 2 times the squared standardised
    coefficients is added to the mean loss, not that of the intercept. Standard errors are those of
    the inverse Fisher information (with the penalty in it). About 8 p + 28 rounds of `trio` a step.
    """
    require_one_a_row("logistic_regression", x[:, 0], y=y)
    require_rows("logistic_regression", x, y)
    rows, size = x.shape
    z = standardise(x)
    design = torch.cat([torch.ones_like(x[:, :1]), z.columns], 1)
    ridge = torch.full((size + 1,), penalty, dtype=x.dtype, device=x.device)
    ridge[0] = 0
    weights = torch.zeros_like(design[0])
    for _ in counted(range(steps), "logistic regression", x):
        likely, covariance = _likelihood(design, weights, ridge)
        gradient = design.mT @ (y.to(x.dtype) - likely) / rows - ridge * weights
        weights = weights + covariance @ gradient
    _, covariance = _likelihood(design, weights, ridge)
    coefficients, errors, centre = _unscaled(weights[1:], covariance.diagonal()[1:].sqrt(), z)
    contrast = torch.cat([torch.ones_like(centre[:1]), -centre])
    intercept_error = (contrast @ (covariance @ contrast)).sqrt()
    freedom = rows**0.5
    return LogisticFit(
        coefficients, contrast @ weights, errors / freedom, intercept_error / freedom
    )


def _likelihood(design: Tensor, weights: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
    """Returns P(y = 1) for each row, and the inverse of the mean information of the rows."""
    likely = torch.sigmoid(design @ weights)
    spread = (likely * (1 - likely)).unsqueeze(-1)
    information = design.mT @ (spread * design) / design.shape[0]
    return likely, inverse(information + torch.diag(ridge))


def _unscaled(weights: Tensor, errors: Tensor, z: Standardised) -> Tensor:
    """Returns weights, errors and means of standardised columns over their deviation."""
    return torch.stack([weights, errors, z.mean]) / z.deviation
