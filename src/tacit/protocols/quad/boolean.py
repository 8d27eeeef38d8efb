"""AND gates of any fan-in on planes of secret bits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels import and_gates, and_products, num_and_products
from ..masked.deal import plane_spec
from ..share import Bool, Parts
from ..steps import Steps
from .base import QuadBase
from .gate import Gate, evaluate

Nodes = tuple[int, ...]


def and_gate(p: QuadBase, known: Tensor, own: Tensor, fan_ins: Nodes) -> Gate:
    """Returns the ANDs of rows of planes, fan_ins[j] rows for gate j, from this side's term.

    The AND of bits m_i ^ a_i is the sum over all sets S of (the m_i outside S) (the a_i in S); each
    side deals the products of two and more of its bits.
    """
    words = known.shape[1]
    dealt = (plane_spec(num_and_products(fan_ins), words),)

    def deal(pads: list[Tensor]) -> list[Tensor]:
        return [and_products(known, fan_ins, pads[0])]

    def share(products: list[Tensor], mask: Tensor) -> Tensor:
        return and_gates(known, own, products[0], fan_ins, mask, first=p.is_first)

    return Gate(plane_spec(len(fan_ins), words), dealt, dealt, deal, share)


def bit_and(p: QuadBase, *bits: Bool) -> Steps[Bool]:
    """Returns the AND of d = 2 to 9 secrets, bit by bit. 1 round.

    One bit each way, 2^d - 1 - d bits dealt by each side.
    """
    rows = bits[0].width

    def side_by_side(parts: Sequence[Tensor]) -> Tensor:
        return torch.stack([part.reshape(-1) for part in parts])

    known = side_by_side([p.known_bits(b) for b in bits])
    own = side_by_side([p.own_share(b) for b in bits])
    parts = yield from evaluate(p, and_gate(p, known, own, (len(bits),)))
    return Bool({i: part.view(rows, -1) for i, part in parts.items()}, bits[0].shape)


def known_planes(p: QuadBase, parts: Parts) -> Tensor:
    """Returns the planes that this party's side knows, from its parts."""
    first, second = p.term_parts
    return parts[first] ^ parts[second]
