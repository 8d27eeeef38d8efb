"""Signs and equality of secrets (M6-M9).

The sign of x = m + a is bit w-1 of u + v, where u = m mod 2^w is known to the evaluators and
v = a mod 2^w to the dealer, and w bits hold x with its sign: a window (bits above w-1 all equal the
sign). The dealer deals a one-hot table for every digit of v (M6); the evaluators look up whether
their digit of u generates or propagates a carry, open those bits under masks, and combine the
digits in carry nodes of a few inputs each (M7), one round for each level (M8).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import ConfigError
from ...kernels import (
    and_gates,
    and_products,
    bit_planes,
    leaf_matches,
    leaf_tables,
    node_carries,
    node_products,
    num_and_products,
    num_products,
    sign_leaves,
    sign_planes,
    sign_tables,
)
from ...ring import num_words
from ..share import Arith, Bool
from ..steps import PASS, Steps
from .base import MaskedBase
from .carry_plan import CarryPlan, groups_after, sign_plan
from .deal import KnownShares, ValueSpecs, deal_with_masks, exchange, open_value, plane_spec

Nodes = tuple[int, ...]


def sign(p: MaskedBase, x: Arith, *, low: int = 0) -> Steps[Bool]:
    """Returns [x < 0]. 2 rounds for windows up to 20 bits, 3 above; a pending division is free.

    A round less for few elements, see `sign_plan`.
    `low` > 0 ignores as many low bits: x in [-2^low, 0) may be taken for positive.
    """
    c = SignComparison(p.in_roles_of(x), x.with_parts(x.parts), (0,), low)
    masks, dealt = yield from deal_with_masks(c.p, c.opened, c.dealt, c.corrections)
    [bit] = yield from c.online(masks, dealt)
    return bit


def signs_bytes(x: Arith, thresholds: Sequence[int], low: int = 0) -> int:
    """Returns the bytes that `signs` takes for an element."""
    return 112 + 32 * len(thresholds)


def signs(p: MaskedBase, x: Arith, thresholds: Sequence[int], *, low: int = 0) -> Steps[list[Bool]]:
    """Returns [x < t] for each public t. All use the same tables (M9), in the rounds of one."""
    if not thresholds:
        return []
    c = SignComparison(p.in_roles_of(x), x.with_parts(x.parts), thresholds, low)
    masks, dealt = yield from deal_with_masks(c.p, c.opened, c.dealt, c.corrections)
    return (yield from c.online(masks, dealt))


class SignLayout(NamedTuple):
    """The plan of comparisons, what they open, level by level, and what is dealt for them.

    leaves_one_out: for each level of nodes, whether one group goes up as it is.
    """

    plan: CarryPlan
    leaves_one_out: tuple[bool, ...]
    opened: ValueSpecs
    dealt: ValueSpecs


class SignComparison:
    """[x < t] for each public t, or [x >= t] if `negate`. All use the same tables (M9).

    In three parts, so that a ReLU can deal for it and for its injection together: the specs of what
    is opened and dealt, the dealer's corrections, and the online rounds. x is a copy of the
    caller's share, so that no other call settles it meanwhile.

    NOTE [sign of a quotient]: a pending division by 2^t is made on m and a alone. If that wraps, it
    is wrong by a multiple of 2^(k-t), which a window of w <= k-t bits does not see: the sign is
    that of the exact quotient.
    """

    def __init__(
        self, p: MaskedBase, x: Arith, thresholds: Sequence[int], low: int = 0, negate: bool = False
    ) -> None:
        self.p, self.thresholds, self.low, self.negate = p, thresholds, low, negate
        self.x, self.shift = x, x.pending + low
        farthest = max(map(abs, thresholds))
        reach = (x.limit >> x.pending) + (x.pending > 0) + farthest  # |x / 2^pending - t| <= reach
        reach = (reach >> low) + (low > 0)  # low bits are dropped by rounding up or down
        width = min(max(reach.bit_length() + 1, 2), p.ring.bits - self.shift)
        if width < 2:
            raise ConfigError(f"low={low}: nothing is left of the {x.width} bits of x")
        layout = _sign_layout(width, num_words(x.numel), len(thresholds))
        self.plan, self.leaves_one_out, self.opened, self.dealt = layout

    def corrections(self, masks: KnownShares, pads: Sequence[Tensor]) -> list[Tensor]:
        """At the dealer: leaf tables of a (M6), and products of the masks of each level (M7)."""
        plan, mask = self.plan, self.p.whole_mask(self.x)
        v = sign_planes(mask, plan.digits, shift=self.shift, up=True)
        tables = sign_tables(v, plan.digits, pads[0], negate=self.negate)
        values, state = [tables], xor(masks[0])  # masks of the rows (G..., P...) of the leaves
        levels = zip(plan.levels, self.leaves_one_out, masks[1:], pads[1:], strict=False)
        for nodes, one_out, level, pad in levels:
            values.append(node_products(state, nodes, pad, out=pad))
            if len(values) <= len(plan.levels):
                state = next_rows(xor(level), state, nodes) if one_out else xor(level)
        return values

    def online(self, masks: KnownShares, dealt: KnownShares) -> Steps[list[Bool]]:
        """Returns the bits: a round for the leaves, and one for each level of nodes (M8)."""
        p, plan = self.p, self.plan
        if p.is_dealer:
            for _ in self.opened:
                yield PASS
            return self._bits(None, masks[len(plan.levels)])
        # State: the rows (G..., P...) as two halves whose xor is the opened value, and own masks.
        [shares], [tables] = masks[0], dealt[0]
        opened = yield from exchange(p, self._leaves(shares, tables), self.opened[0])
        del tables
        state: Sequence[Tensor] = (*opened, shares)
        levels = zip(
            plan.levels, self.leaves_one_out, self.opened[1:], masks[1:], dealt[1:], strict=False
        )
        for nodes, one_out, spec, [mask], [products] in levels:
            own, received, shares = state
            message = node_carries(
                own, shares, products, nodes, mask, first=p.is_leader, received=received
            )
            new = (*(yield from exchange(p, message, spec)), mask)
            pairs = zip(new, state, strict=True)
            state = [next_rows(*pair, nodes) for pair in pairs] if one_out else new
        own, received, shares = state
        return self._bits(own ^ received, [shares])

    def _leaves(self, masks: Tensor, tables: Tensor) -> Tensor:
        """What this evaluator opens first: the leaves of each threshold, side by side."""
        if len(self.thresholds) == 1:
            return self._leaf(self.thresholds[0], masks, tables)
        pairs = zip(self.thresholds, masks.tensor_split(len(self.thresholds), 1), strict=True)
        return torch.cat([self._leaf(t, mask, tables) for t, mask in pairs], 1)

    def _leaf(self, threshold: int, mask: Tensor, tables: Tensor) -> Tensor:
        """Look-ups at the digits of u = m - t: generate and propagate of every digit (M6)."""
        m, low = self.p.opened(self.x), self.shift
        if threshold:
            m, low = (m >> self.x.pending) - threshold, self.low
        u = sign_planes(m, self.plan.digits, shift=low)
        return sign_leaves(u, tables, self.plan.digits, mask, first=self.p.is_leader)

    def _bits(self, opened: Tensor | None, shares: list[Tensor]) -> list[Bool]:
        """The results by threshold, from those side by side."""
        count, shape = len(self.thresholds), self.x.shape
        if count == 1:
            return [self.p.make_bits(opened, shares, shape)]
        values = [None] * count if opened is None else opened.tensor_split(count, 1)
        masks = zip(*[share.tensor_split(count, 1) for share in shares], strict=True)
        pairs = zip(values, masks, strict=True)
        return [self.p.make_bits(m, list(own), shape) for m, own in pairs]


@lru_cache(maxsize=256)
def _sign_layout(width: int, words: int, count: int) -> SignLayout:
    """The layout of `count` comparisons of `width` bits."""
    plan, columns = sign_plan(width, words, count), words * count
    # A level opens G and P of each of its groups, but not P of the lowest (M7).
    heights = [2 * len(nodes) - 1 for nodes in (plan.digits, *plan.levels)]
    levels = [plane_spec(rows, columns) for rows in heights]
    dealt = [plane_spec(plan.table_rows + 1, words)]  # the mask's top bit is the last row
    dealt += [plane_spec(num_products(nodes), columns) for nodes in plan.levels]
    groups, leaves_one_out = len(plan.digits), []
    for nodes in plan.levels:
        leaves_one_out.append(groups > sum(nodes))
        groups = groups_after(groups, nodes)
    return SignLayout(plan, tuple(leaves_one_out), tuple(levels), tuple(dealt))


def xor(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the exclusive or of all."""
    return reduce(torch.bitwise_xor, tensors)


def next_rows(carried: Tensor, rows: Tensor, nodes: Nodes) -> Tensor:
    """The rows (G..., P...) after a level: those of its nodes, and of the group it left out."""
    groups, count = (rows.shape[0] + 1) // 2, len(nodes)
    left_out = rows[groups - 1 : groups], rows[-1:]
    return torch.cat([carried[:count], left_out[0], carried[count:], left_out[1]])


def is_zero(p: MaskedBase, x: Arith) -> Steps[Bool]:
    """Returns [x = 0], that is, [m = -a]. 64 bits: 3 rounds, 21 bits each way.

    Every digit of four bits of m is looked up in the one-hot table of the digit of -a (the P part
    of M6); the matches are joined by AND gates of four inputs (M5).
    """
    x = yield from p.settled.steps(x)
    width, words = max(x.width, 2), num_words(x.numel)
    digits = groups_of_four(width)
    levels: list[Nodes] = []
    count = len(digits)
    while count > 1:
        levels.append(tuple(size for size in groups_of_four(count) if size > 1))
        count = groups_after(count, levels[-1])
    specs = tuple([plane_spec(len(nodes), words) for nodes in (digits, *levels)])

    def corrections(masks: KnownShares, pads: list[Tensor]) -> list[Tensor]:
        state, products = xor(masks[0]), []
        for nodes, level, pad in zip(levels, masks[1:], pads[1:], strict=True):
            products.append(and_products(state[: sum(nodes)], nodes, pad))
            state = torch.cat([xor(level), state[sum(nodes) :]])
        # A digit of a - 1 is all ones minus the digit of -a.
        planes = bit_planes(p.whole_mask(x) - 1, width)
        return [leaf_tables(planes, digits, pads[0]), *products]

    dealt = [plane_spec(sum((1 << digit) - 1 for digit in digits), words)]
    dealt += [plane_spec(num_and_products(nodes), words) for nodes in levels]
    masks, [tables, *products] = yield from deal_with_masks(p, specs, tuple(dealt), corrections)
    message = None
    if not p.is_dealer:
        u = bit_planes(p.opened(x), width)
        message = leaf_matches(u, tables[0], digits, masks[0][0], first=p.is_leader)
    opened, shares = (yield from open_value(p, message, specs[0])), masks[0]
    for nodes, spec, new, [product, *_] in zip(levels, specs[1:], masks[1:], products, strict=True):
        taken = sum(nodes)  # the groups above these go up as they are
        if opened is not None:
            inputs = opened[:taken], shares[0][:taken]
            message = and_gates(*inputs, product, nodes, new[0], first=p.is_leader)
        matched = yield from open_value(p, message, spec)
        if matched is not None and opened is not None:
            opened = torch.cat([matched, opened[taken:]])
        shares = [torch.cat([z, share[taken:]]) for z, share in zip(new, shares, strict=True)]
    return p.make_bits(opened, shares, x.shape)


def groups_of_four(count: int) -> Nodes:
    return (4,) * (count // 4) + ((count % 4,) if count % 4 else ())
