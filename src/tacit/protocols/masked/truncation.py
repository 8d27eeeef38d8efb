"""Division of secrets by 2^t: the pending one is made here.

NOTE [exact]: x = m + a with |x| < 2^(k-2). Let c = m + 2^(k-2), w = -a, and split off the top bits:
floor(x / 2^t) or that plus one is
    floor((c mod 2^(k-1)) / 2^t) - floor((w mod 2^(k-1)) / 2^t) + b 2^(k-1-t) - 2^(k-2-t)
with b = [top bit of c] xor [top bit of w] (protocols.md 2.1). The evaluators know the first term,
the dealer the second; it deals q = floor((w mod 2^(k-1)) / 2^t) - w_top 2^(k-1-t) and w_top, which
is needed mod 2^t only. No mask makes this wrong.

NOTE [probabilistic]: floor(m / 2^t) - floor(-a / 2^t) is floor(x / 2^t) or that plus one unless
m + a wraps, and then off by 2^(k-t): with probability |x| / 2^k for each element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ...kernels import deal_exact, exact_share, from_bit_planes, unpack_bits
from ..checks import check_shift
from ..chunked import in_pieces
from ..share import Arith
from ..steps import Steps
from .arithmetic import make, opened, opened_share, split, whole_mask
from .deal import Known, deal_parts, deal_with_masks, ring_slot

if TYPE_CHECKING:
    from .protocol import Masked


def settled(p: Masked, x: Arith) -> Steps[Arith]:
    """The same secret with nothing pending; x itself becomes it, so that it is paid for once."""
    p = p.in_roles_of(x)
    if x.pending:
        x.settle((yield from p.truncate.steps(x)))
    elif x.dealer is not None:
        x.settle((yield from split(p, x)))
    return x


@in_pieces(64)
def truncate(p: Masked, x: Arith, *, exact: bool | None = None) -> Steps[Arith]:
    """x / 2^pending, rounded down or up; |x| < 2^(k-2).

    Exact: 1 round, k + t bits dealt, one element each way, never off by more than one unit.
    Probabilistic: no round, one element dealt; see NOTE [probabilistic].
    """
    if not x.pending:
        return x
    check_shift(p.ring, x.pending)
    p = p.in_roles_of(x)
    x = x.with_parts(x.parts)  # another call may settle it meanwhile
    limit = (min(x.limit, 1 << (p.ring.bits - 2)) >> x.pending) + 1
    if p.exact if exact is None else exact:
        return (yield from _exact(p, x, x.pending, limit))
    mask = -(-whole_mask(p, x) >> x.pending) if p.is_dealer else None
    masks = yield from deal_parts(p, mask, x.shape)
    return make(p, None if p.is_dealer else opened(p, x) >> x.pending, masks, limit)


def _exact(p: Masked, x: Arith, t: int, limit: int) -> Steps[Arith]:
    """NOTE [exact]: s_i = -q_i - 2^(k-t) c_top w_i, the public terms at the leader; reshare."""

    def correct(_: Known, pads: list[Tensor]) -> list[Tensor]:
        quotient, top = deal_exact(whole_mask(p, x), t)
        return [quotient - pads[0], unpack_bits(top, x.shape, p.ring.dtype) - pads[1]]

    element, narrow = ring_slot(p, x.shape), ring_slot(p, x.shape, width=t)
    [masks], dealt = yield from deal_with_masks(p, (element,), (element, narrow), correct)
    message = None
    if not p.is_dealer:
        [quotient], [top] = dealt
        top = from_bit_planes(top, x.shape, p.ring.dtype) if p.is_leader else top
        m = opened(p, x).contiguous()
        message = exact_share(m, quotient, top, t, first=p.is_leader, minus=masks[0])
    return (yield from opened_share(p, message, element, masks, limit))
