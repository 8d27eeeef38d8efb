"""Products of secrets.

(m + a)(n + b) = m n + (m b + a n) + a b: the value side knows m n, the mask side a b, and the sum
between them is a form of what one side knows and of shares of what the other knows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..masked.deal import ring_spec
from ..products.bilinear import MUL, Bilinear
from ..share import WHOLE_MASK, Arith
from ..steps import Steps, together
from .base import DEALER, VALUE_PARTS, QuadBase
from .gate import Gate, deal_mask, evaluate


def product(p: QuadBase, op: Bilinear, x: Arith, y: Arith) -> Steps[Arith]:
    """Returns op(x, y), whose mask a b + z_1 + z_2 only the mask side knows. 1 round.

    One element each way between parties 1 and 2, one from each of 2 and 3 to party 0.
    """
    limit = x.limit * y.limit * op.terms(x.shape, y.shape)
    known, cross = _products(p, op, x, y)
    spec = ring_spec(p, known.shape)

    def deal(pads: list[Tensor]) -> list[Tensor]:
        return [] if p.on_mask_side else [known - pads[0]]

    def share(dealt: list[Tensor], minus: Tensor) -> Tensor:
        total = cross - minus
        if p.on_mask_side:
            return total.add_(dealt[0])
        return total.add_(known) if p.is_first else total

    parts = yield from evaluate(p, Gate(spec, (), (spec,), deal, share))
    held = {i: part for i, part in parts.items() if i in VALUE_PARTS}
    if p.on_mask_side:
        held[WHOLE_MASK] = known + parts[1] + parts[2]
    return Arith(held, p.ring, limit=limit, dealer=DEALER)


def _products(p: QuadBase, op: Bilinear, x: Arith, y: Arith) -> tuple[Tensor, Tensor]:
    """m n and m b_i + a_i n on the value side, a b and a n_i + m_i b on the mask side."""
    multiply, m, a = p.context.products.sum, p.known(x), p.own_share(x)
    n, b = p.known_parts(y), p.own_share(y)
    if x is y and op == MUL:
        return op(m, m), op(m, a * 2)
    if op.stacks(m.shape, b.shape):
        known, cross = multiply(op, [(torch.cat([m, a]), n)]).chunk(2)
        return known, multiply(op, [(m, [b])]).add_(cross)
    return multiply(op, [(m, n)]), multiply(op, [(m, [b]), (a, n)])


def split(p: QuadBase, x: Arith) -> Steps[Arith]:
    """Returns x with its mask in two shares (Q1). 0 rounds, 1 element dealt."""
    if x.dealer is None:
        return x
    mask = p.known(x) if p.on_mask_side else None
    shares = yield from deal_mask(p, mask, ring_spec(p, x.shape))
    value = {i: x.parts[i] for i in VALUE_PARTS if i in x.parts}
    return Arith(value | shares, p.ring, limit=x.limit)


def _is_settled(x: Arith) -> bool:
    return not x.pending and x.dealer is None


def bilinear(p: QuadBase, op: Bilinear, x: Arith, y: Arith, *, shift: int = 0) -> Steps[Arith]:
    """Returns op(x, y) / 2^shift; an exact division stays pending. 1 round.

    One element more is dealt if nothing is divided.
    """
    if y is x:
        x = y = yield from p.settled.steps(x)
    elif not (_is_settled(x) and _is_settled(y)):
        x, y = yield from together(p.settled.steps(x), p.settled.steps(y))
    made = yield from product(p, op, x, y)
    if not shift:
        return (yield from split(p, made))
    made = made.divided(shift)
    return made if p.exact else (yield from p.truncate.steps(made))
