"""Products of secrets, and the resharing that every opening of ring elements ends with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from ..products.bilinear import MUL, Bilinear
from ..share import WHOLE_MASK, Arith
from ..steps import Steps, together
from .base import MaskedBase
from .deal import ValueSpec, deal_sharing, draw_masks, open_value, ring_spec


def reshare(
    p: MaskedBase, shape: Sequence[int], limit: int, add_share: Callable[[Tensor], object]
) -> Steps[Arith]:
    """Returns the secret y = sum of s_i as a share (M2). 1 round, one element each way.

    `add_share` adds this evaluator's s_i to the tensor that it is given. Evaluator i opens
    s_i - z_i; then m = y - z and a_i = z_i.
    """
    spec = ring_spec(p, shape)
    [masks] = draw_masks(p, [spec])
    message = None
    if not p.is_dealer:
        message = -masks[0]
        add_share(message)
    return (yield from open_share(p, message, spec, masks, limit))


def open_share(
    p: MaskedBase, message: Tensor | None, spec: ValueSpec, masks: list[Tensor], limit: int
) -> Steps[Arith]:
    """Returns the secret of which evaluator i sends s_i - z_i, with masks a_i = z_i. 1 round."""
    m = yield from open_value(p, message, spec)
    return p.make(m, masks, limit)


def product(p: MaskedBase, op: Bilinear, x: Arith, y: Arith) -> Steps[Arith]:
    """Returns op(x, y), whose mask only the dealer knows (M3, M4). 1 round, 1 element each way.

    (m + a)(n + b) = sum over i of (m b_i + a_i n) + m n + a b.
    """
    limit = x.limit * y.limit * op.terms(x.shape, y.shape)
    if p.is_dealer:
        # The evaluators open xy - a b - z, so the mask is a b + z with z = sum of z_i.
        mask = p.context.products.sum(op, [(p.whole_mask(x), p.mask_parts(y))])
        spec = ring_spec(p, mask.shape)
        for evaluator in p.roles.evaluators:
            mask = p.context.randomness.mask(p.roles.opening[evaluator], mask, "add")
        yield from open_value(p, None, spec)
        return Arith({WHOLE_MASK: mask}, p.ring, limit=limit, dealer=p.roles.dealer)
    m, a = p.opened(x), p.own_mask(x)
    if x is y and op == MUL:  # m^2 + 2 m a_i in one product; matrices do not commute
        terms = [(m, [a * 2 + m if p.is_leader else a * 2])]
    else:  # m b_i + (a_i + m) n at the leader, m b_i + a_i n at the other evaluators
        left = {p.roles.mask_of[p.rank]: m, p.roles.opened: a + m if p.is_leader else a}
        # In the order of y's parts: then both evaluators' roles use the same encoded weights.
        terms = [(left[i], [y.parts[i]]) for i in sorted(left)]
    masks = [(p.roles.opening[p.rank], "sub")]
    message = p.context.products.masked(op, terms, p.context.randomness, masks)  # s_i - z_i
    opened = yield from open_value(p, message, ring_spec(p, message.shape))
    assert opened is not None
    return Arith({p.roles.opened: opened}, p.ring, limit=limit, dealer=p.roles.dealer)


def _is_settled(x: Arith) -> bool:
    return not x.pending and x.dealer is None


def split(p: MaskedBase, x: Arith) -> Steps[Arith]:
    """Returns x with its mask shared out to the evaluators (M1). 0 rounds, 1 element dealt."""
    if x.dealer is None:
        return x
    mask = p.whole_mask(x) if p.is_dealer else None
    masks = yield from deal_sharing(p, mask, x.shape)
    return p.make(None if p.is_dealer else p.opened(x), masks, x.limit)


def bilinear(p: MaskedBase, op: Bilinear, x: Arith, y: Arith, *, shift: int = 0) -> Steps[Arith]:
    """Returns op(x, y) / 2^shift; an exact division stays pending. 1 round, 1 element each way.

    One element more is dealt if nothing is divided, or if the division is probabilistic.
    """
    if y is x:
        x = y = yield from p.settled.steps(x)
    elif not (_is_settled(x) and _is_settled(y)):
        x, y = yield from together(p.settled.steps(x), p.settled.steps(y))
    z = (yield from product(p, op, x, y)).divided(shift)
    if not shift:
        return (yield from split(p, z))
    return z if p.exact else (yield from p.truncate.steps(z))
