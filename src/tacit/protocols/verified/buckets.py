"""Verifies gates against random triples. See NOTE [buckets] of this folder."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import count
from math import comb
from typing import NamedTuple

import torch
from torch import Tensor

from ..bit_trees import map_parts
from ..products.bilinear import MUL
from ..replicated.arithmetic import product_share, replicate
from ..replicated.base import CONSTANT
from ..replicated.boolean import and_share
from ..share import Parts
from ..steps import Steps
from .base import VerifiedBase
from .claims import Gates
from .coin import open_parts, opened_stream, toss

STATISTICAL_BITS = 40  # a party that cheats is noticed but for a probability of 2^-40


class Plan(NamedTuple):
    """How gates are put into buckets: `rows` of `width` gates, each compared with `size` others.

    At least the last row holds nothing but gates 0 * 0 = 0, which no message made.
    """

    rows: int
    width: int
    size: int

    @property
    def triples(self) -> int:
        return self.rows * self.width * self.size


@cache
def bucket_plan(gates: int) -> Plan:
    """Returns the least B with 1 / C(B n, B) <= 7/8 of 2^-40 for n rows, and the widest rows.

    A row is wrong if any of its gates is. Wide rows are fewer to put in order.
    """
    size = next(b for b in count(2) if _is_sound(gates + 1, b))
    fewest = bisect_left(range(gates + 2), True, key=lambda rows: _is_sound(rows, size))
    width = max(gates // (fewest - 1), 1)
    return Plan(-(-gates // width) + 1, width, size)


def _is_sound(rows: int, size: int) -> bool:
    return 7 * comb(size * rows, size) >= 8 << STATISTICAL_BITS


def verify_elements(p: VerifiedBase, gates: Sequence[Gates]) -> Steps[None]:
    """Compares all gates with triples, as views. 4 rounds, 3 B elements a gate and party."""

    def multiply(a: Parts, b: Parts) -> Tensor:
        return product_share(p, MUL, a, b)

    def error(part: int, z: Tensor, a: Tensor, b: Tensor, r: Tensor, s: Tensor) -> Tensor:
        known = z.sub_(r * b).sub_(s * a)
        return known.sub_(r * s) if part == CONSTANT else known

    errors = yield from _errors(p, gates, multiply, torch.sub, torch.add, error)
    if errors:
        p.note_zero(errors, errors[p.held[0]].add(errors[p.held[1]]).neg_())


def verify_words(p: VerifiedBase, gates: Sequence[Gates]) -> Steps[None]:
    """As `verify_elements`, for words of 64 AND gates."""

    def multiply(a: Parts, b: Parts) -> Tensor:
        return and_share(p, a, b)

    def error(part: int, z: Tensor, a: Tensor, b: Tensor, r: Tensor, s: Tensor) -> Tensor:
        known = z.bitwise_xor_(r & b).bitwise_xor_(s & a)
        return known.bitwise_xor_(r & s) if part == CONSTANT else known

    xor = torch.bitwise_xor
    errors = yield from _errors(p, gates, multiply, xor, xor, error)
    if errors:
        p.note_zero(errors, errors[p.held[0]] ^ errors[p.held[1]])


Binary = Callable[[Tensor, Tensor], Tensor]


def _errors(
    p: VerifiedBase,
    gates: Sequence[Gates],
    multiply: Callable[[Parts, Parts], Tensor],
    subtract: Binary,
    add: Binary,
    error: Callable[..., Tensor],
) -> Steps[Parts]:
    """This party's parts of z - c - r b - s a - r s for each gate and each of its triples."""
    total = sum(one.numel for one in gates)
    if not total:
        return {}
    plan = bucket_plan(total)
    x, y, z = (map_parts(partial(_rows, plan), *parts) for parts in zip(*gates, strict=True))
    form, dtype = (plan.size * plan.rows, plan.width), gates[0].z[p.held[0]].dtype
    drawn = {
        part: p.context.randomness.draws(opened_stream("triple", part), [(form, dtype)] * 2)
        for part in p.held
    }
    a, b = ({part: pair[n] for part, pair in drawn.items()} for n in (0, 1))
    c = yield from replicate(p, multiply(a, b))
    order = (yield from toss(p)).order(form[0], p.device)
    buckets = (plan.size, plan.rows, plan.width)
    a, b, c = (
        map_parts(lambda part: part.index_select(0, order).view(buckets), parts)
        for parts in (a, b, c)
    )
    hidden = map_parts(subtract, x, a), map_parts(subtract, y, b)
    missing = yield from open_parts(p, hidden)
    i, j = p.held
    r, s = (add(add(h[i], h[j]), m) for h, m in zip(hidden, missing, strict=True))
    return {part: error(part, subtract(z[part], c[part]), a[part], b[part], r, s) for part in c}


def _rows(plan: Plan, *tensors: Tensor) -> Tensor:
    """Returns what the gates have, and zeros for those that fill the rows."""
    filling = plan.rows * plan.width - sum(tensor.numel() for tensor in tensors)
    return torch.cat([*tensors, tensors[0].new_zeros(filling)]).view(plan.rows, plan.width)
