"""Random bits as ring elements, from products; the rest is that of `replicated`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...ring import num_words
from ..bit_trees import map_parts
from ..core import BitSum
from ..products.bilinear import MUL
from ..replicated import injection
from ..share import Arith, Bool, Parts
from ..steps import Steps
from .arithmetic import product
from .base import VerifiedBase
from .compare import operands
from .verify_claims import make_room


def inject_sums_bytes(bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]) -> int:
    """Returns the bytes that `inject_sums` takes for an element, with what it claims."""
    return 640 * (len(bits) + len(sums))


def inject_sums(
    p: VerifiedBase, bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]
) -> Steps[list[Arith]]:
    """Returns, for each sum, the sum over j of (offsets_j + scales_j x) b_j, all in 1 round.

    For each bit 6 elements ahead, 1 bit a party, and 1 element a party if it multiplies x.
    """
    yield from make_room(p)
    return (yield from injection.inject_sums(p, bits, x, sums))


def dabits(p: VerifiedBase, count: int, shape: Sequence[int]) -> Steps[tuple[Parts, Parts]]:
    """Returns `count` random bits r for each element that nobody knows: as planes and as elements.

    r = r_0 ^ r_1 ^ r_2, where two parties know each bit: a ^ b = a + b - 2 a b, twice. 2 rounds
    ahead, 2 elements from each party.
    """
    form = (count, num_words(torch.Size(shape).numel()))
    planes = {part: p.context.draw_planes(injection.flips(part), form) for part in p.held}
    known = map_parts(lambda part: injection.as_elements(p, part, shape), planes)
    total, *others = operands(p, known)
    for other in others:
        both = yield from product(p, MUL, total, other, ahead=True)
        total = map_parts(lambda a, b, ab: a + b - 2 * ab, total, other, both)
    return planes, total
