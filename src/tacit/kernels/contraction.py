"""Weighted sums of small integers along an axis, exact in 64 bits, and mod 2^61 - 1."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring.reference import contraction as reference
from .backend import address, native_for

PRIME = reference.PRIME
NUM_LIMBS = 3
LIMB_BITS = 15
MOST_BITS = 30  # of limbs that are joined: two of them are a rotation of at most 60
MOST_ROWS = 1 << 16  # 2^15 2^31 2^16 = 2^62
_NAMES = {torch.int8: "contract8", torch.int32: "contract32"}


def contract(x: Tensor, factors: Tensor) -> Tensor:
    """Returns the sum over n of factors[l, n] x[o, n, i], as int64 of shape (l, o, i).

    x: int8 or int32, with at most 2^16 rows n. factors: int32 of shape (3, n) in [0, 2^15).
    """
    if x.dtype not in _NAMES or x.dim() != 3 or x.shape[1] > MOST_ROWS:
        limit = f"int8 or int32 of 3 dimensions with at most {MOST_ROWS} rows"
        raise ConfigError(f"{x.dtype} of shape {tuple(x.shape)}", limit=limit)
    if factors.dtype != torch.int32 or factors.shape != (NUM_LIMBS, x.shape[1]):
        limit = f"int32 of shape {(NUM_LIMBS, x.shape[1])}"
        raise ConfigError(f"factors: {factors.dtype} of {tuple(factors.shape)}", limit=limit)
    kernel = getattr(native_for(x, factors), _NAMES[x.dtype], None)
    outer, rows, inner = x.shape
    if kernel is None or not x.numel():
        return reference.contract(x, factors)
    x, factors = x.contiguous(), factors.contiguous()
    out = torch.empty(NUM_LIMBS, outer, inner, dtype=torch.int64)
    kernel(address(x), address(factors), outer, rows, inner, address(out))
    return out


def join_limbs(limbs: Tensor, bits: int) -> Tensor:
    """Returns the sum over l of 2^(bits l) limbs[l], mod p = 2^61 - 1, in [0, p).

    limbs: any int64 of shape (3, ...). bits: of a limb, at most 30.
    """
    if limbs.dtype != torch.int64 or limbs.shape[0] != NUM_LIMBS or not 0 <= bits <= MOST_BITS:
        limit = f"int64 of shape {(NUM_LIMBS, '...')}, and at most {MOST_BITS} bits"
        raise ConfigError(f"{limbs.dtype} of shape {tuple(limbs.shape)}, {bits} bits", limit=limit)
    kernel = getattr(native_for(limbs), "join_limbs", None)
    if kernel is None or not limbs.numel():
        return reference.join_limbs(limbs, bits)
    limbs = limbs.contiguous()
    out = torch.empty(limbs.shape[1:], dtype=torch.int64)
    kernel(address(limbs), bits, out.numel(), address(out))
    return out
