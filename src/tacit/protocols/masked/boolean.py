"""AND gates of any fan-in on planes of secret bits (M5)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels import and_gates, and_products, num_and_products
from ..share import Bool
from ..steps import Steps
from .base import MaskedBase
from .deal import KnownShares, deal_with_masks, open_value, plane_spec


def bit_and(p: MaskedBase, *bits: Bool) -> Steps[Bool]:
    """Returns the AND of d = 2 to 9 secrets, bit by bit (M5).

    1 round, one bit each way, 2^d - 1 - d bits dealt: the product of the m_i ^ a_i is the sum over
    all subsets S of (product of m_i outside S) (product of a_i in S), and the dealer deals the
    products of two and more masks.
    """
    shape, rows = bits[0].shape, bits[0].width
    words = next(iter(bits[0].parts.values())).shape[1]
    fan_ins = (len(bits),)
    out = plane_spec(1, rows * words)

    def side_by_side(parts: Sequence[Tensor]) -> Tensor:
        return torch.stack([part.reshape(-1) for part in parts])

    def corrections(_: KnownShares, pads: list[Tensor]) -> list[Tensor]:
        masks = side_by_side([p.whole_mask_bits(b) for b in bits])
        return [and_products(masks, fan_ins, pads[0])]

    dealt_spec = plane_spec(num_and_products(fan_ins), rows * words)
    [masks], dealt = yield from deal_with_masks(p, (out,), (dealt_spec,), corrections)
    message = None
    if not p.is_dealer:
        [[products]] = dealt
        opened = side_by_side([p.opened(b) for b in bits])
        own = side_by_side([p.own_mask(b) for b in bits])
        message = and_gates(opened, own, products, fan_ins, masks[0], first=p.is_leader)
    m = yield from open_value(p, message, out)
    m = None if m is None else m.view(rows, words)
    return p.make_bits(m, [mask.view(rows, words) for mask in masks], shape)
