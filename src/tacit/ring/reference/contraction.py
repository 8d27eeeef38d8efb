"""Weighted sums along an axis, as their equation says."""

from __future__ import annotations

import torch
from torch import Tensor

PRIME_BITS = 61
PRIME = (1 << PRIME_BITS) - 1


def contract(x: Tensor, factors: Tensor) -> Tensor:
    """Returns the sum over n of factors[l, n] x[o, n, i], as int64 of shape (l, o, i)."""
    return torch.einsum("ln,oni->loi", factors.long(), x.long())


def join_limbs(limbs: Tensor, bits: int) -> Tensor:
    """Returns the sum of 2^(bits l) times limb l, mod 2^61 - 1, in [0, 2^61 - 1)."""
    total = torch.zeros_like(limbs[0])
    for i, limb in enumerate(limbs % PRIME):
        shift = bits * i  # 2^61 = 1 mod p: a product with a power of two is a rotation
        total = (total + (limb << shift & PRIME) + (limb >> PRIME_BITS - shift)) % PRIME
    return total
