"""Bits into ring elements, and products of bits with ring elements, in one round.

For a bit m_b ^ y and x = m + a, where the value side knows m_b and m and the mask side y and a,
    b x = y a + (1 - 2 y) (a m_b + m_b m) + y m
with the sides in either role: each deals its bit and the product of its bit with its term.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels import (
    correct_inject_exact,
    deal_flip,
    deal_injection,
    flip_share,
    inject_exact_share,
    inject_share,
)
from ..core import BitSum, check_bits
from ..masked.deal import ring_spec
from ..share import Arith, Bool
from ..steps import Steps
from .base import QuadBase
from .gate import Gate, evaluate
from .truncation import exact_terms


def inject(p: QuadBase, bit: Bool, x: Arith) -> Steps[Arith]:
    """Returns x where the bit is 1, 0 elsewhere. 1 round, 2 elements dealt by each side.

    An exact pending division of x is made on the way: 1 element and some bits more are dealt.
    """
    if not (x.pending and p.exact):
        x = yield from p.settled.steps(x)
    x = x.map(Tensor.contiguous)  # a copy: another call may settle x meanwhile
    limit = (x.limit >> x.pending) + bool(x.pending)
    gate = _quotient_gate(p, bit, x) if x.pending else _gate(p, bit, x)
    return Arith((yield from evaluate(p, gate)), p.ring, limit=limit)


def _gate(p: QuadBase, bit: Bool, x: Arith) -> Gate:
    element, words, known = ring_spec(p, x.shape), p.known_bits(bit)[0], p.known(x)

    def deal(pads: list[Tensor]) -> list[Tensor]:
        return list(deal_injection(words, known, *pads))

    def share(dealt: list[Tensor], minus: Tensor) -> Tensor:
        flip, product = dealt
        shares = known, flip, product, p.own_share(x)
        return inject_share(words, *shares, first=p.is_first, minus=minus)

    return Gate(element, (element, element), (element, element), deal, share)


def _quotient_gate(p: QuadBase, bit: Bool, x: Arith) -> Gate:
    """b times the quotient of NOTE [exact] in `truncation.py`.

    Each side deals what `masked/injection.py` deals, and evaluates as it does.
    """
    x.check_pending()
    t, element, wide = x.pending, ring_spec(p, x.shape), ring_spec(p, x.shape, x.pending + 1)
    words, (opened, mask) = p.known_bits(bit)[0], exact_terms(p, x)
    both = (element, element, element, wide, wide)

    def deal(pads: list[Tensor]) -> list[Tensor]:
        return correct_inject_exact(words, mask, t, pads)

    def share(dealt: list[Tensor], minus: Tensor) -> Tensor:
        flip, flip_low, low, top, flip_top = dealt
        return inject_exact_share(
            words, opened, flip, flip_low, low, top, flip_top, t,
            first=p.is_first, packed=p.is_first, minus=minus,
        )  # fmt: skip

    return Gate(element, both, both, deal, share)


def inject_sums_bytes(bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]) -> int:
    """Returns the bytes that `inject_sums` takes for an element."""
    return 80 * (len(bits) + len(sums))


def inject_sums(
    p: QuadBase, bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]
) -> Steps[list[Arith]]:
    """Returns, for each sum, the sum over j of (offsets_j + scales_j x) b_j, all in 1 round.

    Dealt by each side: for each bit one element, and one more if it multiplies x.
    """
    check_bits(bits)
    if x is not None:
        x = (yield from p.settled.steps(x)).map(Tensor.contiguous)
    gate = _sums_gate(p, bits, x, sums)
    parts = yield from evaluate(p, gate)
    limits = [one.limit(x) for one in sums]
    return [
        Arith({i: part[n] for i, part in parts.items()}, p.ring, limit=limit)
        for n, limit in enumerate(limits)
    ]


def _sums_gate(p: QuadBase, bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]) -> Gate:
    shape, first = bits[0].shape, p.is_first
    used = [x is not None and any(one.scales[j] for one in sums) for j in range(len(bits))]
    dealt_specs = (ring_spec(p, shape),) * (len(bits) + sum(used))
    known_words = [p.known_bits(bit)[0] for bit in bits]
    known = None if x is None else p.known(x)

    def deal(pads: list[Tensor]) -> list[Tensor]:
        free, values = iter(pads), list[Tensor]()
        for words, uses_x in zip(known_words, used, strict=True):
            if uses_x and known is not None:
                values += deal_injection(words, known, next(free), next(free))
            else:
                values.append(deal_flip(words, next(free)))
        return values

    def share(dealt: list[Tensor], minus: Tensor) -> Tensor:
        shares, totals = iter(dealt), -minus
        pairs = [(next(shares), next(shares) if uses_x else None) for uses_x in used]
        for one, total in zip(sums, totals, strict=True):
            for words, (flip, product), scale, offset in zip(
                known_words, pairs, one.scales, one.offsets, strict=True
            ):
                scale, offset = p.ring.wrap(scale), p.ring.wrap(offset)
                if scale and product is not None and x is not None and known is not None:
                    value, own = known * scale + offset, p.own_share(x) * scale
                    inject_share(words, value, flip, product * scale, own, first=first, out=total)
                elif offset:
                    term = flip_share(words, flip, first=first, out=torch.zeros_like(flip))
                    total.add_(term, alpha=offset)
        return totals

    return Gate(ring_spec(p, (len(sums), *shape)), dealt_specs, dealt_specs, deal, share)
