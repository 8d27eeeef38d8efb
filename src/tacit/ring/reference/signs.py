"""The beginning of a comparison, by definition: leaves of a carry tree, top bits included."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .bits import bit_planes
from .gates import leaf_carries, leaf_tables


def sign_tables(
    mask: Tensor, digits: Sequence[int], pad: Tensor, *, shift: int = 0, negate: bool = False
) -> Tensor:
    """Tables of the digits of -(-mask >> shift), then its top bit, XOR the pad."""
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
    """The carries of the digits; the top bits are added to the G of the most significant one."""
    u = bit_planes(opened, sum(digits) + 1, low)
    carries = leaf_carries(u[:-1], tables[:-1], digits, mask, first=first)
    carries[len(digits) - 1] ^= tables[-1] ^ u[-1] if first else tables[-1]
    return carries
