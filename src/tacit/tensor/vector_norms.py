"""Norms of secrets of orders below 0 and above 2.

torch's gradients of such norms contain powers of the numbers and of the norm, which leave the range
or round to zero. So these norms are computed from ratios to the largest number, or to the smallest
for a negative order; a norm of c x is c times that of x, so the gradient of a constant c is right.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import torch
from torch import Tensor

Dims = int | tuple[int, ...] | None


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    plain: Any,
    **options: Any,
) -> Tensor:
    """As `torch.linalg.vector_norm`, which is `plain`."""
    if not _is_far(ord) or not x.numel():
        return plain(x, ord, dim, keepdim, **options)
    x = x.to(options.get("dtype") or x.dtype)
    dims = tuple(range(x.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    sizes = x.abs()
    with torch.no_grad():
        end = sizes.amax(dims, keepdim=True) if ord > 0 else sizes.amin(dims, keepdim=True)
        nonzero = torch.where(end == 0, 1.0, end)
    ratios = sizes / nonzero if ord > 0 else nonzero / torch.where(sizes == 0, 1.0, sizes)
    total = (ratios ** abs(ord)).sum(dims, keepdim=True)
    made = torch.where(end == 0, 0.0, total ** (1 / ord) * end)
    return made if keepdim else made.squeeze(dims)


def norm(
    x: Tensor,
    ord: Any = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    plain: Any,
    **options: Any,
) -> Tensor:
    """As `torch.linalg.norm`, which is `plain`: of vectors by `vector_norm`."""
    of_vectors = isinstance(dim, int) or (dim is None and x.dim() == 1)
    if of_vectors and _is_far(ord):
        return torch.linalg.vector_norm(x, ord, dim, keepdim, **options)
    return plain(x, ord, dim, keepdim, **options)


def _is_far(order: Any) -> bool:
    number = isinstance(order, int | float) and isfinite(order)
    return number and not 0 <= order <= 2
