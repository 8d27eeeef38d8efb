"""Bits into ring elements, and products of bits with ring elements, in one online round.

With a daBit r, a random bit that is shared both as a bit and as a ring element, c = b ^ r can be
opened, and
    b = c + (1 - 2 c) r,    b x = c x + (1 - 2 c) (r x),
where r x is multiplied in the round in which c is opened.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels import unpack_bits
from ...ring import num_words
from ...transport import Spec
from ..bit_trees import map_parts
from ..core import BitSum, check_bits
from ..products.bilinear import MUL
from ..randomness import Stream, mask_stream
from ..share import Arith, Bool, Parts, stack_planes
from ..steps import Round, Steps
from ..three_party.io import share_parts
from .arithmetic import product_share, replicate
from .base import ReplicatedBase


def inject(p: ReplicatedBase, bit: Bool, x: Arith) -> Steps[Arith]:
    """Returns x where the bit is 1, 0 elsewhere. 1 round.

    Each party sends 1 element and 1 bit; a daBit costs 4 elements ahead.
    """
    [product] = yield from p.inject_sums.steps([bit], x, [BitSum((1,), (0,))])
    return product


def inject_sums_bytes(bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]) -> int:
    """Returns the bytes that `inject_sums` takes for an element."""
    return 64 * (len(bits) + len(sums))


def inject_sums(
    p: ReplicatedBase, bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]
) -> Steps[list[Arith]]:
    """Returns, for each sum, the sum over j of (offsets_j + scales_j x) b_j, all in 1 round.

    For each bit 4 elements ahead, 1 bit a party, and 1 element a party if it multiplies x; the
    number of sums does not matter. A pending x is settled first, after what is sent ahead.
    """
    check_bits(bits)
    shape = bits[0].shape
    random_bits, elements = yield from p.dabits(len(bits), shape)
    used = [j for j in range(len(bits)) if x is not None and any(one.scales[j] for one in sums)]
    x = None if x is None else (yield from p.settled.steps(x))
    hidden = map_parts(torch.bitwise_xor, stack_planes(bits).parts, random_bits)
    z, chosen, factors = None, {}, {}
    if used and x is not None:
        chosen = map_parts(lambda r: r[used], elements)
        factors = map_parts(lambda part: part.expand(len(used), *shape), x.parts)
        z = product_share(p, MUL, chosen, factors)
    opened, products = yield from _open_and_replicate(p, hidden, z)
    if products:
        p.note_product(MUL, chosen, factors, products)
    flipped = [unpack_bits(plane, shape, torch.bool) for plane in opened]
    ones = p.public(torch.ones((), dtype=p.ring.dtype)).parts
    as_bits = [
        map_parts(lambda one, r, j=j: _flip(flipped[j], one, r[j]), ones, elements)
        for j in range(len(bits))
    ]
    times_x = {
        j: map_parts(lambda part, rx, j=j, n=n: _flip(flipped[j], part, rx[n]), x.parts, products)
        for n, j in enumerate(used)
        if x is not None
    }
    return [
        Arith(_bit_sum(p, one, as_bits, times_x, shape), p.ring, limit=one.limit(x)) for one in sums
    ]


def _flip(c: Tensor, plain: Tensor, times_r: Tensor) -> Tensor:
    """A part of c x + (1 - 2 c) (r x), from a part of x and one of r x."""
    return torch.where(c, plain - times_r, times_r)


def _bit_sum(
    p: ReplicatedBase,
    one: BitSum,
    bits: list[Parts],
    times_x: dict[int, Parts],
    shape: Sequence[int],
) -> Parts:
    total = {i: torch.zeros(tuple(shape), dtype=p.ring.dtype, device=p.device) for i in p.held}
    for j, (scale, offset) in enumerate(zip(one.scales, one.offsets, strict=True)):
        for i, part in total.items():
            if offset:
                part.add_(bits[j][i] * p.ring.wrap(offset))
            if scale and j in times_x:
                part.add_(times_x[j][i] * p.ring.wrap(scale))
    return total


def _open_and_replicate(
    p: ReplicatedBase, planes: Parts, z: Tensor | None
) -> Steps[tuple[Tensor, Parts]]:
    """Opens the bits to every party, and replicates the sum of the z_i. 1 round.

    Party i sends both to party i-1: part i-1 of the bits, which that party lacks, and z_i.
    """
    i, j = p.held
    specs = [Spec(tuple(planes[i].shape), torch.int64)]
    message = [planes[p.previous]]
    if z is not None:
        specs.append(Spec(tuple(z.shape), z.dtype))
        message.append(z)
    received = yield Round(send={p.previous: message}, receive={p.next: specs})
    missing, *products = received[p.next]
    p.note_opening(planes, missing)
    opened = planes[i] ^ planes[j] ^ missing
    return opened, {} if z is None else {i: z, j: products[0]}


def dabits(p: ReplicatedBase, count: int, shape: Sequence[int]) -> Steps[tuple[Parts, Parts]]:
    """Returns `count` random bits r for each element that nobody knows: as planes and as elements.

    The adder a knows c = r_{a+1} ^ r_{a+2} and shares it as a ring element; r_a is known to the two
    others, so it is a sharing without a message; r = c + r_a - 2 c r_a takes one product. 2 rounds
    ahead, 1 element from the adder and 1 from each party.
    """
    a, (i, j) = p.adder, p.held
    form = (count, num_words(torch.Size(shape).numel()))
    planes = {part: p.context.draw_planes(flips(part), form) for part in p.held}
    known = as_elements(p, planes[i] ^ planes[j] if p.rank == a else planes[a], shape)
    spec = Spec(tuple(known.shape), p.ring.dtype)
    c = yield from share_parts(p, known if p.rank == a else None, a, spec, ahead=True)
    zero = torch.zeros_like(known)
    other = {part: known if part == a else zero for part in p.held}
    product = yield from replicate(p, product_share(p, MUL, c, other), ahead=True)
    return planes, map_parts(lambda x, y, xy: x + y - 2 * xy, c, other, product)


def flips(part: int) -> Stream:
    """The stream of a part of random bits: it hides the part of flipped bits that is opened."""
    return mask_stream("flip", (part + 1) % 3, (part + 2) % 3, part)


def as_elements(p: ReplicatedBase, planes: Tensor, shape: Sequence[int]) -> Tensor:
    """Zeros and ones of shape (rows, *shape)."""
    return torch.stack([unpack_bits(plane, shape, p.ring.dtype) for plane in planes])
