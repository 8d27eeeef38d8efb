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

from ...kernels import deal_flip, deal_injection, flip_share, inject_share
from ..checks import check_bits
from ..chunked import in_pieces
from ..coefficients import Row
from ..share import Arith, Bool
from ..steps import Steps
from .arithmetic import opened, opened_share, own_mask, whole_mask
from .boolean import opened_bits, whole_bits
from .deal import Known, deal_with_masks, ring_slot
from .injection import injection

if TYPE_CHECKING:
    from .protocol import Masked


@in_pieces(144)
def inject(p: Masked, bit: Bool, x: Arith) -> Steps[Arith]:
    """x where the bit is 1, 0 elsewhere. 1 round, 2 elements dealt and one each way.

    A pending division of x is made on the way, exactly: 2 (t + 1) bits more are dealt.
    """
    product = yield from injection(p, x)

    def correct(_: Known, pads: list[Tensor]) -> list[Tensor]:
        return product.correct(whole_bits(product.p, bit)[0], pads)

    [masks], dealt = yield from deal_with_masks(product.p, product.opened, product.dealt, correct)
    return (yield from product.online(bit, masks, dealt))


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
    slots = (ring_slot(p, shape),) * (len(bits) + sum(used))
    out = ring_slot(p, (len(rows), *shape))

    def correct(_: Known, pads: list[Tensor]) -> list[Tensor]:
        free = iter(pads)
        values: list[Tensor] = []
        for bit, uses_x in zip(bits, used, strict=True):
            y = whole_bits(p, bit)[0]
            if uses_x and x is not None:
                values += deal_injection(y, whole_mask(p, x), next(free), next(free))
            else:
                values.append(deal_flip(y, next(free)))
        return values

    [masks], found = yield from deal_with_masks(p, (out,), slots, correct)
    shares = iter(found)
    dealt = [(next(shares)[0], next(shares)[0] if uses_x else None) for uses_x in used]

    def add(sums: Tensor) -> Tensor:
        for row, total in zip(rows, sums, strict=True):
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
        return sums

    limits = [row.limit(x) for row in rows]
    message = None if p.is_dealer else add(-masks[0])
    sums = yield from opened_share(p, message, out, masks, max(limits))
    return [sums[i].promise(limit) for i, limit in enumerate(limits)]
