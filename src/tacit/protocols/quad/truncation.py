"""Division of secrets by 2^t.

NOTE [exact]: with c = m + 2^(k-2) and w = -a, the quotient of x = m + a is, rounded down or up,
    A - q - 2^(k-t) c_top w_top,
where the value side knows A and the top bit of c, and the mask side q and the top bit of w
(`kernels/injection.py`). The product of the top bits is the form F; only t bits of each count.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...kernels import deal_exact, exact_share, from_bit_planes, unpack_bits
from ..masked.deal import ring_spec
from ..share import Arith
from ..steps import Steps, together
from .arithmetic import split
from .base import QuadBase
from .gate import Gate, deal_mask, deal_value, evaluate


def settled(p: QuadBase, x: Arith) -> Steps[Arith]:
    """Returns x with nothing pending and its mask in two shares. x itself becomes that share."""
    if x.pending:
        x.settle((yield from p.truncate.steps(x)))
    elif x.dealer is not None:
        x.settle((yield from split(p, x)))
    return x


def truncate(p: QuadBase, x: Arith, *, exact: bool | None = None) -> Steps[Arith]:
    """Returns x / 2^pending, rounded down or up; |x| < 2^(k-2). 1 round.

    Exact: never off by more than one unit. Probabilistic: as NOTE [probabilistic] of
    `masked/truncation.py` says, one element dealt by each side.
    """
    if not x.pending:
        return x
    x.check_pending()
    x = x.with_parts(x.parts)  # a copy: another call of a parallel block may settle x meanwhile
    t, limit = x.pending, (min(x.limit, 1 << (p.ring.bits - 2)) >> x.pending) + 1
    if p.exact if exact is None else exact:
        parts = yield from evaluate(p, _exact(p, x, t))
        return Arith(parts, p.ring, limit=limit)
    known, spec = p.known(x), ring_spec(p, x.shape)
    masks, values = yield from together(
        deal_mask(p, -(-known >> t) if p.on_mask_side else None, spec),
        deal_value(p, None if p.on_mask_side else known >> t, spec),
    )
    return Arith(masks | values, p.ring, limit=limit)


def _exact(p: QuadBase, x: Arith, t: int) -> Gate:
    """NOTE [exact]; each side deals its term of the quotient, and its top bit."""
    element, narrow = ring_spec(p, x.shape), ring_spec(p, x.shape, width=t)
    if p.on_mask_side:
        quotient, words = deal_exact(p.known(x), t)
        top = unpack_bits(words, x.shape, p.ring.dtype)
        term = -quotient
    else:
        m = p.known(x).contiguous()
        term, top = quotient_term(m, t)

    def deal(pads: list[Tensor]) -> list[Tensor]:
        return [(-term if p.on_mask_side else term) - pads[0], top - pads[1]]

    def share(dealt: list[Tensor], minus: Tensor) -> Tensor:
        other, tops = dealt
        tops = from_bit_planes(tops, x.shape, p.ring.dtype) if p.is_first else tops
        if not p.on_mask_side:
            return exact_share(m, other, tops, t, first=p.is_first, minus=minus)
        total = other - (top << (p.ring.bits - t)) * tops - minus
        return total.add_(term) if p.is_first else total

    both = (element, narrow)
    return Gate(element, both, both, deal, share)


def quotient_term(m: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Returns A and c_top of NOTE [exact] as ring elements, at the value side."""
    bits = m.element_size() * 8
    c = m + (1 << (bits - 2))
    top = torch.lt(c, 0).to(m.dtype)
    low = (c & ((1 << (bits - 1)) - 1)) >> t
    return low + (top << (bits - 1 - t)) - (1 << (bits - 2 - t)), top
