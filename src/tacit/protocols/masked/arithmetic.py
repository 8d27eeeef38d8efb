"""The parts of ring elements by role, and products of secrets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from ..products.bilinear import MUL, Bilinear, sum_parts
from ..share import WHOLE, Arith
from ..steps import Steps, together
from .deal import Slot, deal_parts, draw_masks, open_, ring_slot

if TYPE_CHECKING:
    from .protocol import Masked

Add = Callable[[Tensor], object]


def opened(p: Masked, x: Arith) -> Tensor:
    """m, at an evaluator."""
    return x.parts[p.roles.opened]


def own_mask(p: Masked, x: Arith) -> Tensor:
    """a_i, at evaluator i."""
    return x.parts[p.roles.mask_of[p.rank]]


def whole_mask(p: Masked, x: Arith) -> Tensor:
    """a = a_1 + ... + a_n, at the dealer."""
    return sum_parts(mask_parts(p, x))


def mask_parts(p: Masked, x: Arith) -> list[Tensor]:
    """What adds up to a, at the dealer."""
    if WHOLE in x.parts:
        return [x.parts[WHOLE]]
    return [x.parts[i] for i in p.roles.masks]


def make(p: Masked, m: Tensor | None, masks: list[Tensor], limit: int) -> Arith:
    """The share whose parts are m and a_i at an evaluator, all a_i (and no m) at the dealer."""
    if m is None:
        return Arith(dict(zip(p.roles.masks, masks, strict=True)), p.ring, limit=limit)
    [mask] = masks
    return Arith({p.roles.opened: m, p.roles.mask_of[p.rank]: mask}, p.ring, limit=limit)


def unsplit(p: Masked, x: Arith) -> Arith:
    """The same secret with its mask known to the dealer alone, as `product` leaves it. Local."""
    if x.dealer is not None:
        return x
    if p.is_dealer:
        share = x.with_parts({WHOLE: whole_mask(p, x)})
    else:
        share = x.with_parts({p.roles.opened: opened(p, x)})
    share.dealer = p.roles.dealer
    return share


def reshare(p: Masked, shape: Sequence[int], limit: int, add: Add) -> Steps[Arith]:
    """The secret that the evaluators' shares add up to (M2). 1 round, one element each way.

    `add` adds this evaluator's share s_i to the tensor it is given. Evaluator i opens s_i - z_i,
    and a_i = z_i.
    """
    slot = ring_slot(p, shape)
    [masks] = draw_masks(p, [slot])
    message = None
    if not p.is_dealer:
        message = -masks[0]
        add(message)
    return (yield from opened_share(p, message, slot, masks, limit))


def opened_share(
    p: Masked, message: Tensor | None, slot: Slot, masks: list[Tensor], limit: int
) -> Steps[Arith]:
    """The secret of which the evaluators open their shares, minus their masks. 1 round."""
    m = yield from open_(p, message, slot)
    return make(p, m, masks, limit)


def product(p: Masked, op: Bilinear, x: Arith, y: Arith) -> Steps[Arith]:
    """The product, with its mask known to the dealer alone (M3, M4). 1 round, 1 element each way.

    (m + a)(n + b) = sum over i of (m b_i + a_i n) + m n + a b. Evaluator i computes its summand,
    the leader's with m n in it; the dealer adds a b to the mask.
    """
    limit = x.limit * y.limit * op.terms(x.shape, y.shape)
    if p.is_dealer:
        mask = p.context.products.sum(op, [(whole_mask(p, x), mask_parts(p, y))])
        slot = ring_slot(p, mask.shape)
        for evaluator in p.roles.evaluators:
            mask = p.context.tape.mask((p.rank, evaluator), mask, "add")
        yield from open_(p, None, slot)
        return Arith({WHOLE: mask}, p.ring, limit=limit, dealer=p.roles.dealer)
    square = x is y and op == MUL  # a matrix and its mask do not commute
    if square and not p.is_leader:
        share = op(opened(p, x), own_mask(p, x) * 2)
    elif square:
        share = op(opened(p, x), own_mask(p, x) * 2 + opened(p, x))
    else:
        n, b = opened(p, y), own_mask(p, y)
        terms = [(opened(p, x), [b, n] if p.is_leader else [b]), (own_mask(p, x), [n])]
        share = p.context.products.sum(op, terms)
    slot = ring_slot(p, share.shape)
    m = yield from open_(p, p.context.tape.mask((p.roles.dealer, p.rank), share, "sub"), slot)
    assert m is not None
    return Arith({p.roles.opened: m}, p.ring, limit=limit, dealer=p.roles.dealer)


def _is_settled(x: Arith) -> bool:
    return not x.pending and x.dealer is None


def split(p: Masked, x: Arith) -> Steps[Arith]:
    """The same secret, of whose mask every evaluator has a part: one element dealt, no round."""
    if x.dealer is None:
        return x
    mask = whole_mask(p, x) if p.is_dealer else None
    masks = yield from deal_parts(p, mask, x.shape)
    return make(p, None if p.is_dealer else opened(p, x), masks, x.limit)


def bilinear(p: Masked, op: Bilinear, x: Arith, y: Arith, *, shift: int = 0) -> Steps[Arith]:
    """op(x, y) / 2^shift; the division is pending where truncation is exact. 1 round.

    Without division or with the probabilistic one: one element dealt and one each way.
    """
    if y is x:
        x = y = yield from p.settled.steps(x)
    elif not (_is_settled(x) and _is_settled(y)):
        x, y = yield from together(p.settled.steps(x), p.settled.steps(y))
    z = (yield from product(p, op, x, y)).divided(shift)
    if not shift:
        return (yield from split(p, z))
    return z if p.exact else (yield from p.truncate.steps(z))
