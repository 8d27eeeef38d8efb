"""Correlated randomness from a dealer that is no party.

Each party draws its masks from its key with the dealer, which knows all of them. What follows from
the masks, a product or an element, it deals: all parties but the last draw their share too, and the
last receives what is missing, ahead of time (M1 of masked evaluation, `masked/deal.py`). The dealer
sends as much as the results of the triples, and receives nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import torch
from torch import Tensor

from ...kernels import deal_exact, from_bit_planes, unpack_bits
from ...ring import num_words
from ..additive.protocol import Additive
from ..context import Context
from ..masked.deal import KnownShares, ValueSpecs, deal_with_masks, plane_spec, ring_spec
from ..products.bilinear import MUL, Bilinear, sum_parts
from ..randomness import common_stream
from ..steps import Steps
from .source import BitPairs, Owners, Source, Square, Triple

# At the dealer: what is dealt, from the sums of all parties' masks.
Values = Callable[[list[Tensor]], list[Tensor]]


class Dealt(Source):
    """The member's side of a dealer, by the roles of `additive`: the last party is the leader."""

    def __init__(self, context: Context) -> None:
        self._p = Additive(context)

    def bilinear_triple(
        self, op: Bilinear, a: Sequence[int], b: Sequence[int], owners: Owners
    ) -> Steps[Triple]:
        p = self._p
        specs = ring_spec(p, a), ring_spec(p, b)

        def values(masks: list[Tensor]) -> list[Tensor]:
            return [p.context.products.sum(op, [(masks[0], [masks[1]])])]

        [x, y], [z] = yield from self._deal(specs, (ring_spec(p, op.shape(a, b)),), values)
        return Triple(x, y, z)

    def square_pair(self, shape: Sequence[int]) -> Steps[Square]:
        spec = (ring_spec(self._p, shape),)
        [a], [c] = yield from self._deal(spec, spec, lambda masks: [MUL(masks[0], masks[0])])
        return Square(a, c)

    def and_triples(self, rows: Sequence[int], words: int) -> Steps[list[Triple]]:
        specs = tuple([plane_spec(count, words) for count in rows])

        def values(masks: list[Tensor]) -> list[Tensor]:
            pairs = zip(masks[: len(rows)], masks[len(rows) :], strict=True)
            return [a & b for a, b in pairs]

        masks, products = yield from self._deal(specs + specs, specs, values)
        columns = masks[: len(rows)], masks[len(rows) :], products
        return [Triple(*column) for column in zip(*columns, strict=True)]

    def bit_pairs(self, bits: int, shape: Sequence[int], chosen: Sequence[int]) -> Steps[BitPairs]:
        p, form = self._p, tuple(shape)
        opened: ValueSpecs = (plane_spec(bits, num_words(torch.Size(form).numel())),)
        dealt: ValueSpecs = (ring_spec(p, (bits, *form)),)
        if chosen:
            opened = (*opened, ring_spec(p, form))
            dealt = (*dealt, ring_spec(p, (len(chosen), *form)))

        def values(masks: list[Tensor]) -> list[Tensor]:
            planes, *a = masks
            elements = torch.stack([unpack_bits(row, form, p.ring.dtype) for row in planes])
            return [elements, *(elements[list(chosen)] * one for one in a)]

        [planes, *a], [elements, *products] = yield from self._deal(opened, dealt, values)
        return BitPairs(planes, elements, a[0] if chosen else None, products[0] if chosen else None)

    def exact_division(self, shape: Sequence[int], t: int) -> Steps[tuple[Tensor, Tensor, Tensor]]:
        """Returns the share of a mask z, and shares of what `deal_exact` makes of it.

        `kernels.exact_share` takes both, and x - z in the open.
        """
        p = self._p
        element, narrow = ring_spec(p, shape), ring_spec(p, shape, width=t)

        def values(masks: list[Tensor]) -> list[Tensor]:
            quotient, top = deal_exact(masks[0], t)
            return [quotient, unpack_bits(top, shape, p.ring.dtype)]

        [z], [quotient, top] = yield from self._deal((element,), (element, narrow), values)
        if p.is_leader:  # it received w_top as t planes; the others drew ring elements
            top = from_bit_planes(top, shape, p.ring.dtype)
        return z, quotient, top

    def division(self, shape: Sequence[int], t: int) -> Steps[tuple[Tensor, Tensor]]:
        """Returns the share of a mask z, and that of -floor(-z / 2^t)."""
        spec = (ring_spec(self._p, shape),)
        [z], [quotient] = yield from self._deal(spec, spec, lambda masks: [-(-masks[0] >> t)])
        return z, quotient

    def random_part(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """From the key with the dealer; the leader adds words of a key that the dealer lacks.

        All holders of a key draw its words, whether they need them or not.
        """
        p, draw = self._p, self._p.context.randomness.draw
        if p.is_dealer:
            for rank in p.roles.evaluators:
                draw(common_stream("random", rank, p.rank), shape, dtype)
            return torch.zeros(tuple(shape), dtype=dtype, device=p.device)
        own = draw(common_stream("random", p.rank, p.roles.dealer), shape, dtype)
        unknown = draw(common_stream("random", *p.roles.evaluators), shape, dtype)
        return own ^ unknown if p.is_leader else own

    def _deal(
        self, opened: ValueSpecs, dealt: ValueSpecs, values: Values
    ) -> Steps[tuple[list[Tensor], list[Tensor]]]:
        """Returns this member's masks of what is opened later, and its shares of what is dealt."""
        p = self._p

        def corrections(masks: KnownShares, pads: list[Tensor]) -> list[Tensor]:
            totals = [
                reduce(torch.bitwise_xor, column) if spec.bits else sum_parts(column)
                for spec, column in zip(opened, masks, strict=True)
            ]
            made = zip(dealt, values(totals), pads, strict=True)
            return [value ^ pad if spec.bits else value - pad for spec, value, pad in made]

        masks, shares = yield from deal_with_masks(p, opened, dealt, corrections)
        if not p.is_dealer:
            return [one for [one] in masks], [one for [one] in shares]
        return [_zeros(one[0]) for one in masks], [_zeros(one[0]) for one in shares]


def _zeros(like: Tensor) -> Tensor:
    return torch.zeros_like(like)
