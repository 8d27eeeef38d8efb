"""Signs and equality of secrets (M6-M9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...kernels import (
    and_gates,
    and_products,
    bit_planes,
    leaf_matches,
    leaf_tables,
    num_and_products,
)
from ...ring.reference.bits import num_words
from ..chunked import in_pieces
from ..share import Arith, Bool
from ..steps import Steps
from .arithmetic import opened, whole_mask
from .boolean import make_bits
from .carry_plan import groups_after
from .deal import Known, deal_with_masks, open_, plane_slot
from .sign import Nodes, Signs, xor

if TYPE_CHECKING:
    from .protocol import Masked


@in_pieces(144)
def sign(p: Masked, x: Arith, *, low: int = 0) -> Steps[Bool]:
    """[x < 0]. `low` > 0 ignores as many low bits: x in [-2^low, 0) may be taken for positive."""
    one = Signs(p.in_roles_of(x), x.with_parts(x.parts), (0,), low)
    masks, dealt = yield from deal_with_masks(one.p, one.opened, one.dealt, one.correct)
    [bit] = yield from one.online(masks, dealt)
    return bit


@in_pieces(lambda x, thresholds, low=0: 112 + 32 * len(thresholds))
def signs(p: Masked, x: Arith, thresholds: Sequence[int], *, low: int = 0) -> Steps[list[Bool]]:
    """[x < t] for each public t. All use the same tables (M9), in the rounds of one."""
    if not thresholds:
        return []
    all_ = Signs(p.in_roles_of(x), x.with_parts(x.parts), thresholds, low)
    masks, dealt = yield from deal_with_masks(all_.p, all_.opened, all_.dealt, all_.correct)
    return (yield from all_.online(masks, dealt))


@in_pieces(112)
def is_zero(p: Masked, x: Arith) -> Steps[Bool]:
    """[x = 0], that is, m = -a: every digit of m matches the table of -a's. 64 bits: 3 rounds."""
    x = yield from p.settled.steps(x)
    width, words = max(x.width, 2), num_words(x.numel)
    digits = _groups_of_four(width)
    levels: list[Nodes] = []
    count = len(digits)
    while count > 1:
        levels.append(tuple(size for size in _groups_of_four(count) if size > 1))
        count = groups_after(count, levels[-1])
    slots = tuple([plane_slot(len(nodes), words) for nodes in (digits, *levels)])

    def correct(masks: Known, pads: list[Tensor]) -> list[Tensor]:
        state, products = xor(masks[0]), []
        for nodes, level, pad in zip(levels, masks[1:], pads[1:], strict=True):
            products.append(and_products(state[: sum(nodes)], nodes, pad))
            state = torch.cat([xor(level), state[sum(nodes) :]])
        # A digit of a - 1 is all ones minus the digit of -a.
        return [leaf_tables(bit_planes(whole_mask(p, x) - 1, width), digits, pads[0]), *products]

    rows = sum((1 << digit) - 1 for digit in digits)
    dealt = [plane_slot(rows, words)]
    dealt += [plane_slot(num_and_products(nodes), words) for nodes in levels]
    masks, [tables, *products] = yield from deal_with_masks(p, slots, tuple(dealt), correct)
    message = None
    if not p.is_dealer:
        u = bit_planes(opened(p, x), width)
        message = leaf_matches(u, tables[0], digits, masks[0][0], first=p.is_leader)
    hats, shares = (yield from open_(p, message, slots[0])), masks[0]
    for nodes, slot, new, [product, *_] in zip(levels, slots[1:], masks[1:], products, strict=True):
        taken = sum(nodes)
        if hats is not None:
            inputs = hats[:taken], shares[0][:taken]
            message = and_gates(*inputs, product, nodes, new[0], first=p.is_leader)
        matched = yield from open_(p, message, slot)
        if matched is not None and hats is not None:
            hats = torch.cat([matched, hats[taken:]])
        shares = [torch.cat([z, share[taken:]]) for z, share in zip(new, shares, strict=True)]
    return make_bits(p, hats, shares, x.shape)


def _groups_of_four(count: int) -> Nodes:
    return (4,) * (count // 4) + ((count % 4,) if count % 4 else ())
