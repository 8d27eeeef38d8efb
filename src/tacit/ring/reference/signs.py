"""The first step of a comparison, by definition: leaves of a carry tree, top bits included.

The sign of x = opened + mask mod 2^w is the carry out of the low w - 1 bits XOR both top bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .bits import bit_planes
from .gates import leaf_carries, leaf_tables


def sign_tables(
    mask: Tensor, digits: Sequence[int], pad: Tensor, *, shift: int = 0, negate: bool = False
) -> Tensor:
    """Returns tables of the digits of V = -(-mask >> shift), then its top bit, XOR the pad."""
    v = bit_planes(-(-mask >> shift), sum(digits) + 1)
    tables = leaf_tables(v[:-1], digits, pad[:-1])
    top = ~v[-1:] if negate else v[-1:]
    return torch.cat([tables, top ^ pad[-1:]])


def sign_leaves(
    opened: Tensor,
    tables: Tensor,
    digits: Sequence[int],
    mask: Tensor,
    *,
    low: int = 0,
    first: bool,
) -> Tensor:
    """Returns the carries of the digits, with the top bits in the most significant G."""
    u = bit_planes(opened, sum(digits) + 1, low)
    carries = leaf_carries(u[:-1], tables[:-1], digits, mask, first=first)
    carries[len(digits) - 1] ^= tables[-1] ^ u[-1] if first else tables[-1]
    return carries
