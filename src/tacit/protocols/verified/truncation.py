"""Exact division of secrets by 2^t, from bits of their parts.

NOTE [division]: let y = x + 2^(k-2), which is not negative and less than 2^(k-1). Its parts without
their top bits add up to y + c 2^(k-1), where c is 0, 1 or 2, and their low t bits to d 2^t, where d
is a fraction. So
    y / 2^t = (sum of floor((y_i mod 2^(k-1)) / 2^t)) + d - c 2^(k-1-t).
The top bit of y is zero, so c is odd exactly if an odd number of top bits is set. If it is even, it
is 2 exactly if two of the three bits k-2 are set: with at most one, the sum is less than 2^k,
which c = 2 would exceed, and with two it is at least 2^(k-1), so that c is not 0.
d is replaced by an integer: d itself if it is one, else one of its neighbours, so that the result
is y / 2^t rounded down or up. Let a_i and b_i be the bits t-1 and t-2 of the parts, and S the sum
of all 2 a_i + b_i. Then S / 4 <= d < (S + 3) / 4, and floor((S + 2) / 4) is such an integer. It is
[two of the a_i are set] + ([an odd number of them is] or [two of the b_i are]).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels import bit_planes
from ..bit_trees import map_parts
from ..core import BitSum
from ..share import Arith, Bool, stack_planes
from ..steps import Steps
from .base import VerifiedBase
from .compare import majority


def settled(p: VerifiedBase, x: Arith) -> Steps[Arith]:
    """Returns x with nothing pending. x itself becomes that share, so it is paid for once."""
    if x.pending:
        x.settle((yield from p.truncate.steps(x)))
    return x


def truncate(p: VerifiedBase, x: Arith, *, exact: bool | None = None) -> Steps[Arith]:
    """Returns x / 2^pending, rounded down or up; |x| < 2^(k-2). 3 rounds. NOTE [division].

    It is exact, whatever `exact` says: nothing is gained by a division that can fail.
    """
    if not x.pending:
        return x
    x.check_pending()
    bits, t, shape = p.ring.bits, x.pending, x.shape
    limit = (min(x.limit, 1 << (bits - 2)) >> t) + 1
    y = p.add_public(Arith(x.parts, p.ring), 1 << (bits - 2))
    planes = map_parts(lambda part: _bits(part, (t - 1, t - 2, bits - 2)), y.parts)
    most = Bool((yield from majority(p, planes)), shape)
    carry, below, wraps = (most.planes(n, n + 1) for n in range(3))
    odd_carry, odd = (
        Bool(map_parts(lambda v, n=n: _bits(v, (n,)), y.parts), shape) for n in (t - 1, bits - 1)
    )
    left, right = stack_planes([wraps, odd_carry]), stack_planes([p.bit_not(odd), below])
    both = yield from p.bit_and.steps(left, right)
    either = p.bit_xor(p.bit_xor(odd_carry, below), both.planes(1, 2))
    wrap = 1 << (bits - 1 - t)
    counts = BitSum((0,) * 4, (-wrap, -2 * wrap, 1, 1))
    flags = [odd, both.planes(0, 1), carry, either]
    [carried] = yield from p.inject_sums.steps(flags, None, [counts])
    low = map_parts(lambda part: (part & p.ring.wrap((1 << (bits - 1)) - 1)) >> t, y.parts)
    total = Arith(map_parts(torch.add, low, carried.parts), p.ring, limit=limit)
    return p.add_public(total, -(wrap >> 1)).promise(limit)


def _bits(x: Tensor, places: Sequence[int]) -> Tensor:
    """A plane for each of these bits of x; below the lowest there is zero."""
    none = bit_planes(x, 1) ^ bit_planes(x, 1)
    return torch.cat([bit_planes(x, 1, n) if n >= 0 else none for n in places])
