"""Bits into ring elements, and products of bits with ring elements, in one round (M10).

A bit b = m_b ^ y, of which the dealer knows the mask y, is m_b + (1 - 2 m_b) y as an integer. With
x = m + a:
    b x = m_b (m + a) + (1 - 2 m_b) (m y + y a),
so the dealer deals y and y a, and the evaluators add up their shares and reshare (M2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from ..derived import select
from ..share import Arith, Bool
from ..steps import Steps
from .arithmetic import open_share
from .base import MaskedBase
from .compare import SignComparison, xor
from .deal import KnownShares, ValueSpecs, deal_with_masks, is_long, ring_spec


def inject(p: MaskedBase, bit: Bool, x: Arith) -> Steps[Arith]:
    """Returns x where the bit is 1, 0 elsewhere. 1 round, 2 elements dealt and one each way.

    An exact pending division of x is made on the way: 1 element and 2 (t + 1) bits more are dealt.
    """
    product = yield from _injection(p, x)

    def corrections(_: KnownShares, pads: list[Tensor]) -> list[Tensor]:
        return product.corrections(product.p.whole_mask_bits(bit)[0], pads)

    specs = product.opened, product.dealt
    [masks], dealt = yield from deal_with_masks(product.p, *specs, corrections)
    return (yield from product.online(bit, masks, dealt))


def relu_with_bit(p: MaskedBase, x: Arith, *, low: int = 0) -> Steps[tuple[Arith, Bool]]:
    """Returns relu(x), and the bits [x >= 0] that its gradient needs. r + 1 rounds.

    A sign, and an injection by it, for which everything is dealt in one message and all masks come
    from one draw of each stream. Of many elements they are dealt one after the other, which keeps
    the memory below 60 bytes for each element and party.
    """
    product = yield from _injection(p, x)
    sign = SignComparison(product.p, product.x, (0,), low, negate=True)
    if is_long(sign.dealt + product.dealt):
        return (yield from select.relu_with_bit(p, x, low=low))
    p, count = product.p, len(sign.dealt)

    def corrections(masks: KnownShares, pads: list[Tensor]) -> list[Tensor]:
        y = xor(masks[-2])[0]  # of the sign, which is opened before the product
        return sign.corrections(masks, pads[:count]) + product.corrections(y, pads[count:])

    specs = sign.opened + product.opened, sign.dealt + product.dealt
    masks, dealt = yield from deal_with_masks(p, *specs, corrections)
    [bit] = yield from sign.online(masks[:-1], dealt[:count])
    positive = yield from product.online(bit, masks[-1], dealt[count:])
    return positive, bit


class Injection(ABC):
    """b x for a bit b = m_b ^ y. 1 round, one element each way.

    In three parts, so that a ReLU can deal for it together with its sign: `opened` and `dealt` are
    the specs, `corrections` is the dealer's part, and `online` is the round.
    """

    dealt: ValueSpecs

    def __init__(self, p: MaskedBase, x: Arith) -> None:
        self.p, self.x = p, x.map(Tensor.contiguous)  # a copy: another call may settle x meanwhile
        self.element = ring_spec(p, x.shape)
        self.opened = (self.element,)
        self.limit = (x.limit >> x.pending) + bool(x.pending)

    @abstractmethod
    def corrections(self, y: Tensor, pads: Sequence[Tensor]) -> list[Tensor]:
        """At the dealer, from the mask y of the bit: the pads, replaced by what is sent."""

    @abstractmethod
    def message(self, bits: Tensor, mask: Tensor, dealt: KnownShares) -> Tensor:
        """At an evaluator: its share minus its mask, s_i - z_i."""

    def online(self, bit: Bool, masks: list[Tensor], dealt: KnownShares) -> Steps[Arith]:
        """Returns the product, reshared."""
        p, message = self.p, None
        if not p.is_dealer:
            message = self.message(p.opened(bit)[0], masks[0], dealt)
        return (yield from open_share(p, message, self.element, masks, self.limit))


class PlainInjection(Injection):
    """b x for x with nothing pending (M10). Dealt: y and y a."""

    def __init__(self, p: MaskedBase, x: Arith) -> None:
        super().__init__(p, x)
        self.dealt = (self.element, self.element)

    def corrections(self, y: Tensor, pads: Sequence[Tensor]) -> list[Tensor]:
        return list(deal_injection(y, self.p.whole_mask(self.x), *pads))

    def message(self, bits: Tensor, mask: Tensor, dealt: KnownShares) -> Tensor:
        p, x, [[flip], [product]] = self.p, self.x, dealt
        shares = p.opened(x), flip, product, p.own_mask(x)
        return inject_share(bits, *shares, first=p.is_leader, minus=mask)


class QuotientInjection(Injection):
    """b floor(x / 2^t), or one unit more, for a pending exact division by 2^t.

    With c and w as in NOTE [exact] of truncation.py, the quotient is A - D + B w_top, where the
    evaluators know A and B = +-2^(k-1-t), and the dealer knows D = floor((w mod 2^(k-1)) / 2^t) and
    w_top. Dealt: y, y D and D; w_top and y w_top modulo 2^(t+1) only, because B is a multiple of
    2^(k-1-t).
    """

    def __init__(self, p: MaskedBase, x: Arith) -> None:
        x.check_pending()
        super().__init__(p, x)
        narrow = ring_spec(p, x.shape, x.pending + 1)
        self.dealt = (self.element, self.element, self.element, narrow, narrow)

    def corrections(self, y: Tensor, pads: Sequence[Tensor]) -> list[Tensor]:
        return correct_inject_exact(y, self.p.whole_mask(self.x), self.x.pending, pads)

    def message(self, bits: Tensor, mask: Tensor, dealt: KnownShares) -> Tensor:
        p, t, m = self.p, self.x.pending, self.p.opened(self.x)
        [flip], [flip_low], [low], [top], [flip_top] = dealt
        return inject_exact_share(
            bits, m, flip, flip_low, low, top, flip_top, t,
            first=p.is_leader, packed=p.is_leader, minus=mask,
        )  # fmt: skip


def _injection(p: MaskedBase, x: Arith) -> Steps[Injection]:
    """The product of a bit with x. An exact pending division becomes part of it."""
    if x.pending and p.exact:
        return QuotientInjection(p.in_roles_of(x), x)
    return PlainInjection(p, (yield from p.settled.steps(x)))


def inject_sums_bytes(bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]) -> int:
    """Returns the bytes that `inject_sums` takes for an element."""
    return 48 * (len(bits) + len(sums))


def inject_sums(
    p: MaskedBase, bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]
) -> Steps[list[Arith]]:
    """Returns, for each sum, the sum over j of (offsets_j + scales_j x) b_j, all in 1 round (M10).

    Dealt: for each bit one element (y), and one more (y a) if it multiplies x. Opened: one element
    a sum, whatever the number of bits.
    """
    check_bits(bits)
    if x is not None:
        x = (yield from p.settled.steps(x)).map(Tensor.contiguous)
    shape = bits[0].shape
    used = [x is not None and any(one.scales[j] for one in sums) for j in range(len(bits))]
    specs = (ring_spec(p, shape),) * (len(bits) + sum(used))
    out = ring_spec(p, (len(sums), *shape))

    def corrections(_: KnownShares, pads: list[Tensor]) -> list[Tensor]:
        free = iter(pads)
        values: list[Tensor] = []
        for bit, uses_x in zip(bits, used, strict=True):
            y = p.whole_mask_bits(bit)[0]
            if uses_x and x is not None:
                values += deal_injection(y, p.whole_mask(x), next(free), next(free))
            else:
                values.append(deal_flip(y, next(free)))
        return values

    [masks], found = yield from deal_with_masks(p, (out,), specs, corrections)
    shares = iter(found)
    dealt = [(next(shares)[0], next(shares)[0] if uses_x else None) for uses_x in used]

    def add_shares(totals: Tensor) -> Tensor:
        """Adds this evaluator's share of every sum to its row of `totals`."""
        for one, total in zip(sums, totals, strict=True):
            for bit, (flip, product), scale, offset in zip(
                bits, dealt, one.scales, one.offsets, strict=True
            ):
                words = p.opened(bit)[0]
                scale, offset = p.ring.wrap(scale), p.ring.wrap(offset)
                if scale and product is not None and x is not None:
                    value, own = p.opened(x) * scale + offset, p.own_mask(x) * scale
                    inject_share(
                        words, value, flip, product * scale, own, first=p.is_leader, out=total
                    )
                elif offset:
                    term = flip_share(words, flip, first=p.is_leader, out=torch.zeros_like(flip))
                    total.add_(term, alpha=offset)
        return totals

    limits = [one.limit(x) for one in sums]
    message = None if p.is_dealer else add_shares(-masks[0])
    results = yield from open_share(p, message, out, masks, max(limits))
    return [results[i].promise(limit) for i, limit in enumerate(limits)]
