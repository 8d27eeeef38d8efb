"""Functions that are constant on both sides, such as sigmoid, in two rounds (M12, M14).

Where x is, is looked up in dealt tables of bits. Scale j has a window of w bits of x = m + a, from
bit s_j up: with u and v, these bits of m and of the mask a, r = u + v mod 2^w is floor(x / 2^s_j)
or one less, modulo 2^w, because a carry from below is lost. The dealer knows v. It deals, for each
u, the bits T = [r is near 0] and P = [r is above], rotated by v; the evaluators look up u. Scales
overlap, from fine ones at the ends of the middle to the coarse one that holds the whole range: if T
holds at scale j, scale j - 1 knows the place of x, else P at scale j tells on which side x is. So,
for scales 1 to d, tails left and right, and the value y in the middle,
    f(x) = left + (right - left) (P_d + T_d P_(d-1) + ... + T_d ... T_2 P_1)
           + T_d ... T_1 (y - left).
Round 1 opens all bits, and y as a sum of sines. Round 2 opens f(x): the dealer, who knows the masks
t and p of the bits, deals their products, and those with the mask of y. The division of y is exact
and made on the way, see NOTE [exact] in truncation.py.

NOTE [wide tables]: a table is dealt under a pad of its own, like everything else (M1). What the
evaluators open are its bits under fresh masks. Both choose the entry by m, which both know.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...kernels import bit_planes, deal_exact, unpack_bits
from ...ring import num_words
from ..derived import functions
from ..derived.piecewise import quotient_limit
from ..products.bilinear import sum_parts
from ..share import Arith
from ..steps import Steps, together
from .arithmetic import open_share
from .base import MaskedBase
from .compare import xor
from .deal import KnownShares, ValueSpec, deal_with_masks, open_value, plane_spec, ring_spec
from .dealer_functions import SineSum

# Two rounds are saved for about 1 KB dealt for each element: only where there are few elements.
MOST_ELEMENTS = 1024
# The middle, [-L, L), is found to L / 2^EDGE_BITS: up to there beyond L, y may be the result.
EDGE_BITS = 5
OVERLAP = 3  # bits that two scales share
WORD = 32  # entries of a table in one word


class Scales(NamedTuple):
    """The windows of all scales, the finest first: their lowest bits s_j and their width w."""

    shifts: tuple[int, ...]
    width: int

    @property
    def words(self) -> int:
        """The words of a table."""
        return (1 << self.width) // WORD


@lru_cache(maxsize=256)
def scales(middle: int, limit: int, ring_bits: int) -> Scales | None:
    """Returns the scales for |x| <= limit, the middle being |x| < 2^middle, with the fewest bits.

    Tables of 2^w entries for each scale, and 4 2^d - 2 products for d scales, of 64 bits. The
    coarsest window holds the limit and two of its steps more. None if it would leave the ring.
    """
    first = middle - EDGE_BITS
    bits = (limit + (limit >> 4)).bit_length() + 1 - first
    found = []
    for count in range(1, 7):
        width = max(-(-(bits + OVERLAP * (count - 1)) // count), EDGE_BITS + OVERLAP)
        shifts = tuple(first + i * (width - OVERLAP) for i in range(count))
        if first >= 0 and shifts[-1] + width <= ring_bits:
            cost = count * 2 * 2**width + 64 * num_products(count)
            found.append((cost, Scales(shifts, width)))
    return min(found)[1] if found else None


def num_products(count: int) -> int:
    """Returns how many ring elements round 2 takes for this many scales."""
    return (4 << count) - 2


def saturated(
    p: MaskedBase,
    x: Arith,
    coefficients: Sequence[float],
    *,
    period_bits: int,
    fraction_bits: int,
    tails: tuple[int, int],
    offset: int = 0,
    factor: Arith | None = None,
) -> Steps[Arith]:
    """Returns offset + fourier(x) if |x| < 2^(period_bits-2), and the left or right tail beyond.

    With a factor, of the shape of x, the result times that integer. Of up to `MOST_ELEMENTS`
    elements: 2 rounds, with nothing pending; near the ends of the middle either may be the result.
    Of more, or if x.limit says that x lies inside: as every protocol.
    """
    places = scales(period_bits - 2 + x.pending, x.limit, p.ring.bits)
    inside = quotient_limit(x) <= 1 << (period_bits - 2)
    if inside or places is None or x.numel > MOST_ELEMENTS:
        return (
            yield from functions.saturated(
                p,
                x,
                coefficients,
                period_bits=period_bits,
                fraction_bits=fraction_bits,
                tails=tails,
                offset=offset,
                factor=factor,
            )
        )
    if factor is not None:
        factor = yield from p.settled.steps(factor)
    sines = SineSum(p, x, coefficients, period_bits, fraction_bits)
    place = Place(sines.p, sines.x, places)
    choice = Choice(sines, place.count, tails, offset, factor)

    def corrections(masks: KnownShares, pads: list[Tensor]) -> list[Tensor]:
        products = choice.products(xor(masks[0]), sum_parts(masks[1]))
        return [place.tables() ^ pads[0], sines.corrections(pads[1]), products.sub_(pads[2])]

    opened = (place.opened, sines.element, sines.element)
    dealt = (place.dealt, sines.dealt, choice.dealt)
    [of_bits, of_value, masks], given = yield from deal_with_masks(
        sines.p, opened, dealt, corrections
    )
    messages: list[Tensor | None] = [None, None, None]
    if not sines.p.is_dealer:
        [tables], [waves], [products] = given
        messages[:2] = place.message(of_bits[0], tables), sines.message(of_value[0], waves)
    bits, value = yield from together(
        *(open_value(sines.p, *pair) for pair in zip(messages[:2], opened[:2], strict=True))
    )
    if bits is not None and value is not None:
        messages[2] = choice.message(bits, value, masks[0], products)
    return (yield from open_share(sines.p, messages[2], sines.element, masks, choice.limit))


class Place:
    """Where x is: the bits T and P of every scale, the coarsest first, as rows of planes."""

    def __init__(self, p: MaskedBase, x: Arith, scales: Scales) -> None:
        self.p, self.x, self.scales = p, x, scales
        self.count = len(scales.shifts)
        self.opened = plane_spec(2 * self.count, num_words(x.numel))
        shape = (self.count, 2, x.numel, scales.words)
        self.dealt = ValueSpec(shape, torch.int32, bits=True)

    def tables(self) -> Tensor:
        """At the dealer: for every scale and element, T and P for each u, WORD bits in a word."""
        v = self._windows(self.p.whole_mask(self.x)).unsqueeze(-1)
        words = torch.arange(self.scales.words, device=v.device) + (v // WORD)
        patterns = _patterns(self.scales.width, self.count, v.device)
        rows = [
            [pattern[place] for pattern in both]
            for both, place in zip(patterns, words, strict=True)
        ]
        rotated = torch.stack([torch.stack(both) for both in rows]) >> (v % WORD).unsqueeze(1)
        return rotated.to(torch.int32)

    def message(self, mask: Tensor, tables: Tensor) -> Tensor:
        """At an evaluator: its shares of the bits, xor its masks."""
        u = self._windows(self.p.opened(self.x))
        index = (u // WORD).unsqueeze(1).unsqueeze(-1).expand(-1, 2, -1, 1)
        found = tables.gather(-1, index).squeeze(-1) >> (u % WORD).unsqueeze(1)
        bits = (found & 1).to(torch.int64).flatten(0, 1)
        total = sum_parts([row << i for i, row in enumerate(bits)])
        return bit_planes(total, 2 * self.count) ^ mask

    def _windows(self, x: Tensor) -> Tensor:
        """The bits of every window, of shape (scales, elements)."""
        flat, ones = x.reshape(-1), (1 << self.scales.width) - 1
        rows = [(flat >> shift) & ones for shift in reversed(self.scales.shifts)]
        return torch.stack(rows).to(torch.int64)


@lru_cache(maxsize=64)
@_disable_current_modes()  # parties that are threads share it: no plan may write it
def _patterns(width: int, count: int, device: torch.device) -> Tensor:
    """The tables T and P for v = 0 of every scale, the coarsest first: word i has 2 WORD bits.

    They begin at entry WORD i, and repeat, so that a shift by v % WORD gives those that begin at v.
    """
    size = 1 << width
    r = torch.arange(3 * size) % size
    r = torch.where(r < size // 2, r, r - size)
    ends = [1] * (count - 1) + [1 << EDGE_BITS]  # of the middle of each scale
    bits = torch.stack([torch.stack([(r >= -end - 1) & (r < end), r >= end]) for end in ends])
    weights = torch.ones(2 * WORD, dtype=torch.int64) << torch.arange(2 * WORD)
    return (bits.unfold(-1, 2 * WORD, WORD).to(torch.int64) * weights).sum(-1).to(device)


class Choice:
    """The result, from the masked bits of a place and the masked, undivided value y.

    With T = t_m + (1 - 2 t_m) t for the opened bit t_m and its mask t, a product of T's is a sum
    over subsets R of public weights times the product of the masks t in R, which is dealt. Subsets
    are numbered by their bits, the coarsest scale being bit 0. Rows of `dealt`: these products but
    the empty one; for every scale, products of the mask of P with those of the coarser scales; all
    products with the quotient q of y's mask; all with e = 2^(k - shift) times its top bit. By NOTE
    [exact], y / 2^shift = A - q - [top bit of c] e, where the evaluators know A and c. With a
    factor, all rows again, times the mask of the factor.
    """

    def __init__(
        self,
        sines: SineSum,
        count: int,
        tails: tuple[int, int],
        offset: int,
        factor: Arith | None = None,
    ) -> None:
        self.p, self.shape, self.shift = sines.p, sines.element.shape, sines.shift
        self.count, self.factor = count, factor
        self.left, self.rise, self.offset = tails[0], tails[1] - tails[0], offset
        rows = num_products(count) * (1 if factor is None else 2)
        self.dealt = ring_spec(sines.p, (rows, *self.shape))
        largest = max(*map(abs, tails), (sines.limit >> sines.shift) + abs(offset) + 1)
        self.limit = largest * (1 if factor is None else factor.limit)

    def products(self, masks: Tensor, of_value: Tensor) -> Tensor:
        """At the dealer: the rows that are dealt, from the masks of the bits and of y."""
        quotient, top = deal_exact(of_value, self.shift)
        e = unpack_bits(top, self.shape, of_value.dtype) << (self.p.ring.bits - self.shift)
        subsets, sides = torch.ones_like(of_value).unsqueeze(0), []
        for inside, above in self._pairs(masks):
            sides.append(subsets * above)
            subsets = torch.cat([subsets, subsets * inside])
        rows = torch.cat([subsets[1:], *sides, subsets * quotient, subsets * e])
        if self.factor is None:
            return rows
        return torch.cat([rows, rows * self.p.whole_mask(self.factor)])

    def message(self, bits: Tensor, value: Tensor, mask: Tensor, dealt: Tensor) -> Tensor:
        """At an evaluator: its share of the result minus its mask, s_i - z_i."""
        size = 1 << self.count
        first, dealt = self._factored(dealt)
        subsets = torch.cat([first, dealt[: size - 1]])
        sides, quotients, tops = dealt[size - 1 :].split([size - 1, size, size])
        known, top = self._known_part(value)
        out, weights = first[0] * self.left - mask, torch.ones_like(first)  # of the empty set
        for inside, above in self._pairs(bits):
            rows, sides = sides[: len(weights)], sides[len(weights) :]
            side = subsets[: len(weights)] * above + rows * (1 - 2 * above)
            out += (weights * side).sum(0, dtype=value.dtype) * self.rise
            weights = torch.cat([weights * inside, weights * (1 - 2 * inside)])
        middle = subsets * known - quotients - tops * top
        return out + (weights * middle).sum(0, dtype=value.dtype)

    def _factored(self, dealt: Tensor) -> tuple[Tensor, Tensor]:
        """This evaluator's shares of the empty product and of the rows, times the factor."""
        p, y = self.p, self.factor
        if y is None:
            return torch.full_like(dealt[:1], int(p.is_leader)), dealt
        rows, with_mask = dealt.chunk(2)
        opened, own = p.opened(y), p.own_mask(y)
        own = own + opened if p.is_leader else own
        return own.unsqueeze(0), rows * opened + with_mask

    def _known_part(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """A of NOTE [exact], plus offset minus the left tail, and the top bit of c."""
        bits, t = self.p.ring.bits, self.shift
        c = value + (1 << (bits - 2))
        top = (c < 0).to(value.dtype)
        low = (c & ((1 << (bits - 1)) - 1)) >> t
        constant = self.offset - self.left - (1 << (bits - 2 - t))
        return low + (top << (bits - 1 - t)) + constant, top

    def _pairs(self, planes: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The bits T and P of every scale, as ring elements."""
        rows = [unpack_bits(row, self.shape, self.p.ring.dtype) for row in planes]
        return list(zip(rows[::2], rows[1::2], strict=True))
