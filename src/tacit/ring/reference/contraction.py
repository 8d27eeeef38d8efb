"""Weighted sums along an axis, as their equation says."""

from __future__ import annotations

import torch
from torch import Tensor


def contract(x: Tensor, factors: Tensor) -> Tensor:
    """Returns the sum over n of factors[l, n] x[o, n, i], as int64 of shape (l, o, i)."""
    return torch.einsum("ln,oni->loi", factors.long(), x.long())
