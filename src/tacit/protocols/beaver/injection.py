"""Bits into ring elements, and products of bits with ring elements, in one online round.

With a random bit r that is shared both as a bit and as a ring element, c = b ^ r can be opened.
With shares of uniform a and of r a too, so can e = x - a in the same message, and
    b = c + (1 - 2 c) r,    b x = c x + (1 - 2 c) (e r + r a).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels import unpack_bits
from ..core import BitSum, check_bits
from ..share import Arith, Bool, stack_planes
from ..steps import Steps
from .base import BeaverBase, open_hidden
from .source import BitPairs


def inject(p: BeaverBase, bit: Bool, x: Arith) -> Steps[Arith]:
    """Returns x where the bit is 1, 0 elsewhere. 1 round, 1 element and 1 bit each way."""
    [product] = yield from p.inject_sums.steps([bit], x, [BitSum((1,), (0,))])
    return product


def inject_sums_bytes(bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]) -> int:
    """Returns the bytes that `inject_sums` takes for an element."""
    return 64 * (len(bits) + len(sums))


def inject_sums(
    p: BeaverBase, bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]
) -> Steps[list[Arith]]:
    """Returns, for each sum, the sum over j of (offsets_j + scales_j x) b_j, all in 1 round.

    Each party sends 1 bit for each b_j, and 1 element if any multiplies x, to each other party; the
    number of sums does not matter. A pending x is settled first.
    """
    check_bits(bits)
    shape = bits[0].shape
    used = [j for j in range(len(bits)) if any(one.scales[j] for one in sums)]
    chosen = [] if x is None else used
    pairs = yield from p.source.bit_pairs(len(bits), shape, chosen)
    x = None if x is None else (yield from p.settled.steps(x))
    planes = p.own(stack_planes(bits)) ^ pairs.planes
    hidden = [] if x is None or pairs.a is None else [p.own(x).expand(shape) - pairs.a]
    opened, [flips] = yield from open_hidden(p, hidden, [planes])
    limits = [one.limit(x) for one in sums]
    if p.is_dealer:
        return [p.make(p.zeros(shape), limit) for limit in limits]
    flipped = torch.stack([unpack_bits(plane, shape, torch.bool) for plane in flips])
    as_elements = _flip(flipped, int(p.is_leader), pairs.elements)
    times_x = None
    if x is not None and opened:
        times_x = _times_x(p.own(x), opened[0], flipped[chosen], pairs, chosen)
    return [
        p.make(_bit_sum(p, one, as_elements, times_x, chosen), limit)
        for one, limit in zip(sums, limits, strict=True)
    ]


def _flip(c: Tensor, plain: Tensor | int, times_r: Tensor) -> Tensor:
    """A part of c x + (1 - 2 c) (r x), from a part of x and one of r x."""
    return torch.where(c, plain - times_r, times_r)


def _times_x(
    own: Tensor, e: Tensor, flipped: Tensor, pairs: BitPairs, chosen: Sequence[int]
) -> Tensor:
    """This party's part of b_j x for each chosen j: r x = e r + r a."""
    assert pairs.products is not None
    return _flip(flipped, own, pairs.elements[list(chosen)] * e + pairs.products)


def _bit_sum(
    p: BeaverBase, one: BitSum, bits: Tensor, times_x: Tensor | None, chosen: Sequence[int]
) -> Tensor:
    total = torch.zeros_like(bits[0])
    for j, (scale, offset) in enumerate(zip(one.scales, one.offsets, strict=True)):
        if offset:
            total.add_(bits[j] * p.ring.wrap(offset))
        if scale and times_x is not None:
            total.add_(times_x[chosen.index(j)] * p.ring.wrap(scale))
    return total
