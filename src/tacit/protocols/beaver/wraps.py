"""Division of secrets by 2^t without a dealer: exact, by the number of times that the parts wrap.

Let u = x + 2^(k-2), which lies in [0, 2^(k-1)), and u_i its parts, read as unsigned. They add up to
u + w 2^k, so floor(u / 2^t) = (sum of floor(u_i / 2^t)) + e - w 2^(k-t), where e is the carry out
of the low t bits of all parts.

NOTE [two parts]: then w is 0 or 1, and it is 1 exactly if one of the two top bits is: with one top
bit set, the top bit of u, which is 0, has got a carry from below. So w = a + b - a b for bits a, b
that one party each knows, and a b takes one transfer. One party rounds down and the other one up:
that is floor(x / 2^t) or one more, without e.

NOTE [more parts]: the top c bits of all parts, plus n, make w: with n / 2^c <= 1/2 they miss less
than n / 2^c of the sum, and u / 2^k is below 1/2, so floor((sum + n) / 2^c) = w. In the same way
the top c of the low t bits make e or e + 1. Both sums are of few bits: carry-save steps, and one
tree of carries for each bit above c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...kernels import bit_planes
from ...ring import num_words
from ..bit_trees import carry_save, carry_save_rows, map_parts, top_bit, top_bit_rows
from ..core import BitSum
from ..share import Arith, Bool, Parts
from ..steps import Steps, together
from .base import BeaverBase
from .boolean import and_gates
from .compare import operands
from .truncation import divided_part, quotient_limit

if TYPE_CHECKING:
    from .dealer_free import DealerFree


def truncate(p: DealerFree, x: Arith, *, exact: bool | None = None) -> Steps[Arith]:
    """Returns x / 2^pending, rounded down or up; |x| < 2^(k-2).

    Two parties: 2 rounds and one transfer, or no message if it need not be exact. More parties:
    always exact, by ANDs of few bits.
    """
    if not x.pending:
        return x
    x.check_pending()
    limit, own, t = quotient_limit(p, x), p.own(x), x.pending
    if p.parties > 2:
        return p.make((yield from _of_many(p, own, t)), limit)
    if p.exact if exact is None else exact:
        return p.make((yield from _of_two(p, own, t)), limit)
    return p.make(divided_part(p, own, t), limit)


def _shifted(p: BeaverBase, own: Tensor) -> Tensor:
    """This party's part of u = x + 2^(k-2)."""
    return own + (1 << (p.ring.bits - 2)) if p.is_leader else own


def _quotient(p: BeaverBase, u: Tensor, t: int) -> Tensor:
    """floor(u_i / 2^t) of the unsigned part; the leader takes 2^(k-2) back."""
    bits = p.ring.bits
    down = (u >> t) & ((1 << (bits - t)) - 1)
    return down - (1 << (bits - 2 - t)) if p.is_leader else down


def _of_two(p: DealerFree, own: Tensor, t: int) -> Steps[Tensor]:
    """NOTE [two parts]: party 0 chooses by its top bit, and rounds up."""
    bits, u = p.ring.bits, _shifted(p, own)
    top, wrap = (u >> (bits - 1)) & 1, p.ring.wrap(1 << (bits - t))
    quotient = _quotient(p, u, t) - top * wrap
    if not p.is_leader:
        quotient += (u & ((1 << t) - 1)) != 0
    both = yield from p.source.bit_times(0, top * wrap if p.is_leader else top)
    return quotient + both


def sum_bits(parties: int) -> tuple[int, int]:
    """Returns c, and the number of bits of a sum of c bits of each party and n."""
    c = (2 * parties - 1).bit_length()
    return c, c + parties.bit_length()


def _of_many(p: DealerFree, own: Tensor, t: int) -> Steps[Tensor]:
    """NOTE [more parts]: w and e + 1 or e, bit by bit, as ring elements."""
    bits, u, words = p.ring.bits, _shifted(p, own), num_words(own.numel())
    c, width = sum_bits(p.parties)
    low = u & ((1 << t) - 1)
    tops = (u >> (bits - c)) & ((1 << c) - 1), low >> (t - c) if t > c else low << (c - t)
    planes = [bit_planes(top + p.parties if p.is_leader else top, width) for top in tops]
    gates = yield from and_gates(p, carry_save_rows(p.parties, width), 2 * words)
    s, v = yield from carry_save(gates, operands(p, torch.cat(planes, 1)))
    found = yield from together(*(_bit(p, s, v, place) for place in range(c, width)))
    wraps, carries = (
        [Bool({p.rank: one[p.rank][:, side]}, own.shape) for one in found]
        for side in (slice(0, words), slice(words, 2 * words))
    )
    weights = [1 << place for place in range(width - c)]
    offsets = (*(-weight << (bits - t) for weight in weights), *weights)
    counted = BitSum((0,) * len(offsets), offsets)
    [total] = yield from p.inject_sums.steps([*wraps, *carries], None, [counted])
    return _quotient(p, u, t) + p.own(total)


def _bit(p: BeaverBase, u: Parts, v: Parts, place: int) -> Steps[Parts]:
    """Returns one bit of u + v."""
    low = [map_parts(lambda planes: planes[: place + 1], one) for one in (u, v)]
    gates = yield from and_gates(p, top_bit_rows(place + 1), u[p.rank].shape[1])
    return (yield from top_bit(gates, *low))
