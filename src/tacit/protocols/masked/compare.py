"""Signs and equality of secrets (M6-M9).

The sign of x = m + a is bit w-1 of u + v, where u = m mod 2^w is known to the evaluators and
v = a mod 2^w to the dealer, and w bits hold x. The dealer deals a table for every digit of v; the
evaluators look up whether their digit of u generates or propagates a carry, open that under masks,
and combine the digits in nodes of a few inputs each, one round a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...errors import ConfigError
from ...kernels import (
    and_gates,
    and_products,
    bit_planes,
    leaf_carries,
    leaf_matches,
    leaf_tables,
    node_carries,
    node_products,
    num_and_products,
    num_products,
)
from ...ring.reference.bits import num_words
from ..pieces import in_pieces
from ..share import Arith, Bool
from ..steps import Steps
from .arithmetic import opened, whole_mask
from .boolean import make_bits
from .deal import Slot, deal, draw_masks, open_, plane_slot
from .plan import Plan, carry_plan, groups_after

if TYPE_CHECKING:
    from .protocol import Masked

Nodes = tuple[int, ...]


def sign(p: Masked, x: Arith, *, low: int = 0) -> Steps[Bool]:
    """[x < 0]. `low` > 0 ignores as many low bits: x in [-2^low, 0) may be taken for positive."""
    [bit] = yield from signs(p, x, [0], low=low)
    return bit


@in_pieces(lambda x, thresholds, low=0: 112 + 32 * len(thresholds))
def signs(p: Masked, x: Arith, thresholds: Sequence[int], *, low: int = 0) -> Steps[list[Bool]]:
    """[x < t] for each public t. All use the same tables (M9), in the rounds of one.

    NOTE [sign of a quotient]: a pending division by 2^t is made on m and a alone. Where that wraps
    it is wrong by a multiple of 2^(k-t), which a window of w <= k-t bits does not see: the sign is
    that of the exact quotient.
    """
    if not thresholds:
        return []
    p = p.in_roles_of(x)
    x = x.with_parts(x.parts)  # another call may settle it meanwhile
    shift = x.pending + low
    reach = (x.limit >> x.pending) + bool(x.pending) + max(map(abs, thresholds))
    reach = (reach >> low) + bool(low)  # low bits are dropped by rounding up or down
    width = min(max(reach.bit_length() + 1, 2), p.ring.bits - shift)
    if width < 2:
        raise ConfigError(f"low={low}: nothing is left of the {x.width} bits of x")
    plan, levels, slots = _forms(width, num_words(x.numel), len(thresholds))
    masks = draw_masks(p, levels)

    def correct(pads: list[Tensor]) -> list[Tensor]:
        v = bit_planes(_mask_quotient(p, x, shift), width)
        state, products = _xor(masks[0]), []
        for nodes, level, pad in zip(plan.levels, masks[1:], pads[2:], strict=True):
            products.append(node_products(_taken(state, nodes), nodes, pad))
            state = _lifted(_xor(level), state, nodes)
        return [leaf_tables(v[:-1], plan.digits, pads[0]), v[-1:] ^ pads[1], *products]

    [tables, tops, *products] = yield from deal(p, slots, correct)

    message, u_tops = None, None
    if not p.is_dealer:
        planes = [_opened_planes(p, x, t, width, low) for t in thresholds]
        u_tops = torch.cat([u[-1:] for u in planes], 1)
        parts = [
            leaf_carries(u[:-1], tables[0], plan.digits, mask, first=p.is_leader)
            for u, mask in zip(planes, masks[0][0].tensor_split(len(planes), 1), strict=True)
        ]
        message = torch.cat(parts, 1) if len(parts) > 1 else parts[0]
        del planes, parts
    del tables
    hats, shares = (yield from open_(p, message, levels[0])), masks[0]
    for nodes, level, new, dealt in zip(plan.levels, levels[1:], masks[1:], products, strict=True):
        if hats is not None:
            taken = _taken(hats, nodes), _taken(shares[0], nodes)
            message = node_carries(*taken, dealt[0], nodes, new[0], first=p.is_leader)
        carried = yield from open_(p, message, level)
        if carried is not None and hats is not None:
            hats = _lifted(carried, hats, nodes)
        shares = [_lifted(z, share, nodes) for z, share in zip(new, shares, strict=True)]
    if len(thresholds) > 1:
        tops = [v.repeat(1, len(thresholds)) for v in tops]
    shares = [z ^ v for z, v in zip(shares, tops, strict=True)]
    if hats is not None and u_tops is not None:
        hats ^= u_tops
    return _by_threshold(p, x, hats, shares, len(thresholds))


@lru_cache(maxsize=256)
def _forms(width: int, words: int, count: int) -> tuple[Plan, list[Slot], list[Slot]]:
    """The plan for `count` comparisons of `width` bits, what it opens, and what it deals."""
    plan, columns = carry_plan(width), words * count
    heights = [2 * len(nodes) - 1 for nodes in (plan.digits, *plan.levels)]
    levels = [plane_slot(rows, columns) for rows in heights]
    dealt = [plane_slot(plan.table_rows, words), plane_slot(1, words)]
    dealt += [plane_slot(num_products(nodes), columns) for nodes in plan.levels]
    return plan, levels, dealt


def _mask_quotient(p: Masked, x: Arith, shift: int) -> Tensor:
    mask = whole_mask(p, x)
    return -(-mask >> shift) if shift else mask


def _opened_planes(p: Masked, x: Arith, threshold: int, width: int, low: int) -> Tensor:
    m = opened(p, x)
    if not threshold:
        return bit_planes(m, width, x.pending + low)
    return bit_planes((m >> x.pending) - threshold, width, low)


def _xor(tensors: Sequence[Tensor]) -> Tensor:
    return reduce(torch.bitwise_xor, tensors)


def _taken(state: Tensor, nodes: Nodes) -> Tensor:
    """The rows (G..., P...) of the groups that the nodes take; the state may have one more."""
    groups, taken = (state.shape[0] + 1) // 2, sum(nodes)
    if groups == taken:
        return state
    return torch.cat([state[:taken], state[groups : groups + taken - 1]])


def _lifted(carried: Tensor, state: Tensor, nodes: Nodes) -> Tensor:
    """The rows after a level: what the nodes carried, and the group that they left out."""
    groups, count = (state.shape[0] + 1) // 2, len(nodes)
    if groups == sum(nodes):
        return carried
    left_out = state[groups - 1 : groups], state[-1:]
    return torch.cat([carried[:count], left_out[0], carried[count:], left_out[1]])


def _by_threshold(
    p: Masked, x: Arith, hats: Tensor | None, shares: list[Tensor], count: int
) -> list[Bool]:
    words = shares[0].shape[1] // count
    cut = [slice(i * words, (i + 1) * words) for i in range(count)]
    return [
        make_bits(
            p, None if hats is None else hats[:, c], [share[:, c] for share in shares], x.shape
        )
        for c in cut
    ]


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
    slots = [plane_slot(len(nodes), words) for nodes in (digits, *levels)]
    masks = draw_masks(p, slots)

    def correct(pads: list[Tensor]) -> list[Tensor]:
        state, products = _xor(masks[0]), []
        for nodes, level, pad in zip(levels, masks[1:], pads[1:], strict=True):
            products.append(and_products(state[: sum(nodes)], nodes, pad))
            state = torch.cat([_xor(level), state[sum(nodes) :]])
        # A digit of a - 1 is all ones minus the digit of -a.
        return [leaf_tables(bit_planes(whole_mask(p, x) - 1, width), digits, pads[0]), *products]

    rows = sum((1 << digit) - 1 for digit in digits)
    dealt = [plane_slot(rows, words)]
    dealt += [plane_slot(num_and_products(nodes), words) for nodes in levels]
    [tables, *products] = yield from deal(p, dealt, correct)
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
