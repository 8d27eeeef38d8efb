"""Bits into ring elements, and products of bits with ring elements, in one round (M10).

A bit b = m_b ^ y, where the dealer knows y, is m_b + (1 - 2 m_b) y as an integer. With x = m + a:
    b x = m_b (m + a) + (1 - 2 m_b)(m y + y a),
so the dealer deals y and y a, and the evaluators add up and reshare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...kernels import (
    deal_flip,
    deal_inject_exact,
    deal_injection,
    flip_share,
    inject_exact_share,
    inject_share,
    unpack_bits,
)
from ..arguments import check_bits, check_shift
from ..pieces import in_pieces
from ..rows import Row
from ..share import Arith, Bool
from ..steps import Steps
from .arithmetic import opened, own_mask, reshare, whole_mask
from .boolean import opened_bits, whole_bits
from .deal import deal, ring_slot

if TYPE_CHECKING:
    from .protocol import Masked


@in_pieces(144)
def inject(p: Masked, bit: Bool, x: Arith) -> Steps[Arith]:
    """x where the bit is 1, 0 elsewhere. 1 round, 2 elements dealt and one each way.

    A pending division of x is made on the way, exactly: 2 (t + 1) bits more are dealt.
    """
    if x.pending and p.exact:
        check_shift(p.ring, x.pending)
        whole = x.map(Tensor.contiguous)  # a copy: another call may settle x meanwhile
        return (yield from _inject_quotient(p.in_roles_of(x), bit, whole))
    x = (yield from p.settled.steps(x)).map(Tensor.contiguous)

    def correct(pads: list[Tensor]) -> list[Tensor]:
        return list(deal_injection(whole_bits(p, bit)[0], whole_mask(p, x), *pads))

    [[flip, *_], [product, *_]] = yield from deal(p, [ring_slot(p, x.shape)] * 2, correct)

    def add(out: Tensor) -> None:
        bits, m, own = opened_bits(p, bit)[0], opened(p, x), own_mask(p, x)
        inject_share(bits, m, flip, product, own, first=p.is_leader, out=out)

    return (yield from reshare(p, x.shape, x.limit, add))


def _inject_quotient(p: Masked, bit: Bool, x: Arith) -> Steps[Arith]:
    """b * floor(x / 2^t), or one unit more (2.7). With c, w as in NOTE [exact] of truncation.py,
    the quotient is A - D + B w_top, where the evaluators know A and B = +-2^(k-1-t), the dealer
    D and w_top. It deals D, y, y D, and modulo 2^(t+1) w_top and y w_top.
    """
    t, ring = x.pending, p.ring

    def correct(pads: list[Tensor]) -> list[Tensor]:
        y = whole_bits(p, bit)[0]
        low, flip_low, top, flip_top = deal_inject_exact(y, whole_mask(p, x), t)
        tops = [unpack_bits(words, x.shape, ring.dtype) for words in (top, flip_top)]
        values = [unpack_bits(y, x.shape, ring.dtype), flip_low, low, *tops]
        return [value - pad for value, pad in zip(values, pads, strict=True)]

    narrow = ring_slot(p, x.shape, width=t + 1)
    dealt = yield from deal(p, [ring_slot(p, x.shape)] * 3 + [narrow] * 2, correct)

    def add(out: Tensor) -> None:
        flip, flip_low, low, top, flip_top = (share for share, *_ in dealt)
        bits, m = opened_bits(p, bit)[0], opened(p, x)
        inject_exact_share(
            bits, m, flip, flip_low, low, top, flip_top, t, first=p.is_leader, out=out
        )

    return (yield from reshare(p, x.shape, (x.limit >> t) + 1, add))


@in_pieces(lambda bits, x, rows: 48 * (len(bits) + len(rows)))
def inject_sums(
    p: Masked, bits: Sequence[Bool], x: Arith | None, rows: Sequence[Row]
) -> Steps[list[Arith]]:
    """For each row, the sum over j of (offsets_j + scales_j x) b_j, all in 1 round.

    Dealt: for each bit one element, and one more if x is used; opened: one element a row.
    """
    check_bits(bits)
    if x is not None:
        x = (yield from p.settled.steps(x)).map(Tensor.contiguous)
    shape = bits[0].shape
    used = [x is not None and any(row.scales[j] for row in rows) for j in range(len(bits))]
    slots = [ring_slot(p, shape)] * (len(bits) + sum(used))

    def correct(pads: list[Tensor]) -> list[Tensor]:
        free = iter(pads)
        values: list[Tensor] = []
        for bit, uses_x in zip(bits, used, strict=True):
            y = whole_bits(p, bit)[0]
            if uses_x and x is not None:
                values += deal_injection(y, whole_mask(p, x), next(free), next(free))
            else:
                values.append(deal_flip(y, next(free)))
        return values

    shares = iter((yield from deal(p, slots, correct)))
    dealt = [(next(shares)[0], next(shares)[0] if uses_x else None) for uses_x in used]

    def add(out: Tensor) -> None:
        for row, total in zip(rows, out, strict=True):
            for bit, (flip, product), scale, offset in zip(
                bits, dealt, row.scales, row.offsets, strict=True
            ):
                words = opened_bits(p, bit)[0]
                scale, offset = p.ring.wrap(scale), p.ring.wrap(offset)
                if scale and product is not None and x is not None:
                    value, own = opened(p, x) * scale + offset, own_mask(p, x) * scale
                    inject_share(
                        words, value, flip, product * scale, own, first=p.is_leader, out=total
                    )
                elif offset:
                    term = flip_share(words, flip, first=p.is_leader, out=torch.zeros_like(flip))
                    total.add_(term, alpha=offset)

    limits = [row.limit(x) for row in rows]
    sums = yield from reshare(p, (len(rows), *shape), max(limits), add)
    return [sums[i].promise(limit) for i, limit in enumerate(limits)]
