"""Comparisons of a secret with public numbers (M6-M9), as what is opened, dealt and computed.

The sign of x = m + a is bit w-1 of u + v, where u = m mod 2^w is known to the evaluators and
v = a mod 2^w to the dealer, and w bits hold x. The dealer deals a table for every digit of v; the
evaluators look up whether their digit of u generates or propagates a carry, open that under masks,
and combine the digits in nodes of a few inputs each, one round a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ...errors import ConfigError
from ...kernels import node_carries, node_products, num_products, sign_leaves, sign_tables
from ...ring.reference.bits import num_words
from ..share import Arith, Bool
from ..steps import PASS, Steps
from .arithmetic import opened, whole_mask
from .boolean import make_bits
from .carry_plan import Plan, carry_plan, groups_after
from .deal import Known, Slots, halves, plane_slot

if TYPE_CHECKING:
    from .protocol import Masked

Nodes = tuple[int, ...]


class Forms(NamedTuple):
    """The plan of comparisons, what they open, level by level, and what is dealt for them.

    gaps: for each level of nodes, whether it leaves a group out.
    """

    plan: Plan
    gaps: tuple[bool, ...]
    opened: Slots
    dealt: Slots


class Signs:
    """[x < t] for each public t, or [x >= t] where `negate`. All use the same tables (M9).

    Nobody else settles x meanwhile: it is a copy of the caller's.

    `low` > 0 ignores as many low bits: x - t in [-2^low, 0) may be taken for positive.

    NOTE [sign of a quotient]: a pending division by 2^t is made on m and a alone. Where that wraps
    it is wrong by a multiple of 2^(k-t), which a window of w <= k-t bits does not see: the sign is
    that of the exact quotient.
    """

    def __init__(
        self, p: Masked, x: Arith, thresholds: Sequence[int], low: int = 0, negate: bool = False
    ) -> None:
        self.p, self.thresholds, self.low, self.negate = p, thresholds, low, negate
        self.x, self.shift = x, x.pending + low
        farthest = max(map(abs, thresholds))
        reach = (x.limit >> x.pending) + (x.pending > 0) + farthest
        reach = (reach >> low) + (low > 0)  # low bits are dropped by rounding up or down
        width = min(max(reach.bit_length() + 1, 2), p.ring.bits - self.shift)
        if width < 2:
            raise ConfigError(f"low={low}: nothing is left of the {x.width} bits of x")
        forms = _forms(width, num_words(x.numel), len(thresholds))
        self.plan, self.gaps, self.opened, self.dealt = forms

    def correct(self, masks: Known, pads: Sequence[Tensor]) -> list[Tensor]:
        """At the dealer: what is sent of what is dealt, out of the masks of all that is opened."""
        plan, mask = self.plan, whole_mask(self.p, self.x)
        tables = sign_tables(mask, plan.digits, pads[0], shift=self.shift, negate=self.negate)
        values, state = [tables], xor(masks[0])
        levels = zip(plan.levels, self.gaps, masks[1:], pads[1:], strict=False)
        for nodes, gap, level, pad in levels:
            values.append(node_products(state, nodes, pad, out=pad))
            if len(values) <= len(plan.levels):
                state = _lifted(xor(level), state, nodes) if gap else xor(level)
        return values

    def online(self, masks: Known, dealt: Known) -> Steps[list[Bool]]:
        """The bits: a round for the leaves, and one for each level of nodes."""
        p, plan = self.p, self.plan
        if p.is_dealer:
            for _ in self.opened:
                yield PASS
            return self._bits(None, masks[len(plan.levels)])
        [shares], [tables] = masks[0], dealt[0]
        hats = yield from halves(p, self._leaves(shares, tables), self.opened[0])
        del tables
        state: Sequence[Tensor] = (*hats, shares)
        levels = zip(plan.levels, self.gaps, self.opened[1:], masks[1:], dealt[1:], strict=False)
        for nodes, gap, slot, [mask], [products] in levels:
            own, received, shares = state
            message = node_carries(
                own, shares, products, nodes, mask, first=p.is_leader, received=received
            )
            new = (*(yield from halves(p, message, slot)), mask)
            state = [_lifted(*two, nodes) for two in zip(new, state, strict=True)] if gap else new
        own, received, shares = state
        return self._bits(own ^ received, [shares])

    def _leaves(self, masks: Tensor, tables: Tensor) -> Tensor:
        """What this evaluator opens first: the leaves for each threshold, side by side."""
        if len(self.thresholds) == 1:
            return self._leaf(self.thresholds[0], masks, tables)
        some = zip(self.thresholds, masks.tensor_split(len(self.thresholds), 1), strict=True)
        return torch.cat([self._leaf(t, mask, tables) for t, mask in some], 1)

    def _leaf(self, threshold: int, mask: Tensor, tables: Tensor) -> Tensor:
        m, low = opened(self.p, self.x), self.shift
        if threshold:
            m, low = (m >> self.x.pending) - threshold, self.low
        return sign_leaves(m, tables, self.plan.digits, mask, low=low, first=self.p.is_leader)

    def _bits(self, hats: Tensor | None, shares: list[Tensor]) -> list[Bool]:
        count, shape = len(self.thresholds), self.x.shape
        if count == 1:
            return [make_bits(self.p, hats, shares, shape)]
        some = [None] * count if hats is None else hats.tensor_split(count, 1)
        own = zip(*[share.tensor_split(count, 1) for share in shares], strict=True)
        both = zip(some, own, strict=True)
        return [make_bits(self.p, m, list(masks), shape) for m, masks in both]


@lru_cache(maxsize=256)
def _forms(width: int, words: int, count: int) -> Forms:
    """The forms of `count` comparisons of `width` bits."""
    plan, columns = carry_plan(width), words * count
    heights = [2 * len(nodes) - 1 for nodes in (plan.digits, *plan.levels)]
    levels = [plane_slot(rows, columns) for rows in heights]
    dealt = [plane_slot(plan.table_rows + 1, words)]  # the mask's top bit is the last row
    dealt += [plane_slot(num_products(nodes), columns) for nodes in plan.levels]
    groups, gaps = len(plan.digits), []
    for nodes in plan.levels:
        gaps.append(groups > sum(nodes))
        groups = groups_after(groups, nodes)
    return Forms(plan, tuple(gaps), tuple(levels), tuple(dealt))


def xor(tensors: Sequence[Tensor]) -> Tensor:
    return reduce(torch.bitwise_xor, tensors)


def _lifted(carried: Tensor, state: Tensor, nodes: Nodes) -> Tensor:
    """The rows (G..., P...) after a level: those of its nodes, and of the group they left out."""
    groups, count = (state.shape[0] + 1) // 2, len(nodes)
    left_out = state[groups - 1 : groups], state[-1:]
    return torch.cat([carried[:count], left_out[0], carried[count:], left_out[1]])
