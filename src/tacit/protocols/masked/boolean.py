"""Secret bits: their parts by role, and AND gates of any fan-in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...kernels import and_gates, and_products, num_and_products
from ..share import Bool
from ..steps import Steps
from .deal import Known, deal_with_masks, open_, plane_slot

if TYPE_CHECKING:
    from .protocol import Masked


def opened_bits(p: Masked, x: Bool) -> Tensor:
    """m, at an evaluator."""
    return x.parts[p.roles.opened]


def own_bits(p: Masked, x: Bool) -> Tensor:
    """a_i, at evaluator i."""
    return x.parts[p.roles.mask_of[p.rank]]


def whole_bits(p: Masked, x: Bool) -> Tensor:
    """a = a_1 ^ ... ^ a_n, at the dealer."""
    return reduce(torch.bitwise_xor, (x.parts[i] for i in p.roles.masks))


def make_bits(p: Masked, m: Tensor | None, masks: list[Tensor], shape: Sequence[int]) -> Bool:
    """The bits whose parts are m and a_i at an evaluator, all a_i (and no m) at the dealer."""
    if m is None:
        return Bool(dict(zip(p.roles.masks, masks, strict=True)), shape)
    [mask] = masks
    return Bool({p.roles.opened: m, p.roles.mask_of[p.rank]: mask}, shape)


def bit_and(p: Masked, *bits: Bool) -> Steps[Bool]:
    """The AND of 2 to 9 secrets, bit by bit (M5). 1 round, one bit each way, 2^d - 1 - d dealt."""
    shape, rows = bits[0].shape, bits[0].width
    sizes = (len(bits),)
    words = opened_words(bits[0])
    out = plane_slot(1, rows * words)

    def side_by_side(parts: Sequence[Tensor]) -> Tensor:
        return torch.stack([part.reshape(-1) for part in parts])

    def correct(_: Known, pads: list[Tensor]) -> list[Tensor]:
        return [and_products(side_by_side([whole_bits(p, b) for b in bits]), sizes, pads[0])]

    slots = (plane_slot(num_and_products(sizes), rows * words),)
    [masks], dealt = yield from deal_with_masks(p, (out,), slots, correct)
    message = None
    if not p.is_dealer:
        [[products]] = dealt
        hats = side_by_side([opened_bits(p, b) for b in bits])
        own = side_by_side([own_bits(p, b) for b in bits])
        message = and_gates(hats, own, products, sizes, masks[0], first=p.is_leader)
    m = yield from open_(p, message, out)
    m = None if m is None else m.view(rows, words)
    return make_bits(p, m, [mask.view(rows, words) for mask in masks], shape)


def opened_words(bits: Bool) -> int:
    """Words in a plane."""
    return next(iter(bits.parts.values())).shape[1]
