"""Cholesky factors, inverses and solutions of small systems, in an order that is public.

No pivot is chosen by its value, so the program is the same for all matrices. Positive definite
matrices need no pivoting; others are orthogonalised column by column, which needs none either.
"""

from __future__ import annotations

import torch
from torch import Tensor


def cholesky(a: Tensor) -> Tensor:
    """Returns the lower triangular L with L L^T = a, for positive definite a of shape (..., p, p).

    7 p rounds of `trio`. On secrets entries of L are right to about 2^-f over the smallest
    pivot; what is not positive definite gives numbers without meaning, and no error.

    >>> cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return _eliminated(a, a[..., :0])[0].mT


def inverse(a: Tensor) -> Tensor:
    """Returns the inverse of a positive definite matrix, of shape (..., p, p).

    With L L^T = a it is (L^-1)^T L^-1, and then X (2 - a X), which squares the relative error. The
    entries of a should be near 1 on the diagonal, as those of a correlation matrix. 7 p + 6 rounds.
    """
    unit = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    root = _eliminated(a, unit.expand(a.shape))[1]
    found = root.mT @ root
    return found @ (2 * unit - a @ found)


def _eliminated(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Returns L^T and L^-1 b: Gauss elimination of [a b], each pivot row divided by its root."""
    size = a.shape[-1]
    rest = torch.cat([a, b], -1)
    rows = []
    for j in range(size):
        row = rest[..., :1, :] * torch.rsqrt(rest[..., :1, :1])
        rows.append(torch.nn.functional.pad(row, (j, 0)))
        rest = rest[..., 1:, 1:] - row[..., 1 : size - j].mT * row[..., 1:]
    done = torch.cat(rows, -2)
    return done[..., :size], done[..., size:]


def solve(a: Tensor, b: Tensor) -> Tensor:
    """Returns x with a x = b, or the least squares solution if a has more rows than columns.

    a has shape (..., n, p) with independent columns, b (..., n) or (..., n, k). Columns of a are
    made orthonormal one after another (modified Gram-Schmidt), and the residual is solved for
    once more. On secrets the error is about 2^-f times the norm of a's inverse if columns have
    lengths between 2^-4 and 2^8. 11 p + 9 rounds of `trio`.

    >>> solve(torch.tensor([[0.0, 2.0], [1.0, 1.0]]), torch.tensor([4.0, 5.0]))
    tensor([3., 2.])
    """
    if b.dim() == a.dim() - 1:
        return solve(a, b.unsqueeze(-1)).squeeze(-1)
    orthonormal, inverse_factor = _orthonormal(a)
    first = inverse_factor @ (orthonormal.mT @ b)
    return first + inverse_factor @ (orthonormal.mT @ (b - a @ first))


def _orthonormal(a: Tensor) -> tuple[Tensor, Tensor]:
    """Returns Q and R^-1 with a = Q R: what makes the columns of a orthonormal, done to [a; 1]."""
    rows, size = a.shape[-2:]
    unit = torch.eye(size, dtype=a.dtype, device=a.device)
    rest = torch.cat([a, unit.expand(*a.shape[:-2], size, size)], -2)
    columns = []
    for _ in range(size):
        length = rest[..., :rows, :1].square().sum(-2, keepdim=True)
        column = rest[..., :1] * torch.rsqrt(length)
        columns.append(column)
        shadow = column[..., :rows, :].mT @ rest[..., :rows, 1:]
        rest = rest[..., 1:] - column * shadow
    done = torch.cat(columns, -1)
    return done[..., :rows, :], done[..., rows:, :]
