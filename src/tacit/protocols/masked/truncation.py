"""Division of secrets by 2^t: where pending divisions are carried out.

NOTE [exact]: x = m + a with |x| < 2^(k-2). Let c = m + 2^(k-2), w = -a, and split off the top bits:
floor(x / 2^t) or that plus one is
    floor((c mod 2^(k-1)) / 2^t) - floor((w mod 2^(k-1)) / 2^t) + b 2^(k-1-t) - 2^(k-2-t)
with b = [top bit of c] xor [top bit of w]. The evaluators know the first term, the dealer the
second; it deals q = floor((w mod 2^(k-1)) / 2^t) - w_top 2^(k-1-t) and w_top, the latter mod 2^t
only, because it is multiplied by 2^(k-t). No mask makes this wrong (arXiv 1910.12435; ABY3 trunc2).

NOTE [probabilistic]: floor(m / 2^t) - floor(-a / 2^t) is floor(x / 2^t) or that plus one unless
m + a wraps, and then off by 2^(k-t): with probability |x| / 2^k for each element.
"""

from __future__ import annotations

from torch import Tensor

from ...kernels import deal_exact, exact_share, from_bit_planes, unpack_bits
from ..share import Arith
from ..steps import Steps
from .arithmetic import open_share, split
from .base import MaskedBase
from .deal import KnownShares, deal_sharing, deal_with_masks, ring_spec


def settled(p: MaskedBase, x: Arith) -> Steps[Arith]:
    """Returns x with nothing pending, and every mask shared out. x itself becomes that share.

    So the cost is paid once: that of `truncate` for a pending division, of `split` for a product.
    """
    p = p.in_roles_of(x)
    if x.pending:
        x.settle((yield from p.truncate.steps(x)))
    elif x.dealer is not None:
        x.settle((yield from split(p, x)))
    return x


def truncate(p: MaskedBase, x: Arith, *, exact: bool | None = None) -> Steps[Arith]:
    """Returns x / 2^pending, rounded down or up; |x| < 2^(k-2).

    Exact: 1 round, k + t bits dealt, one element each way, never off by more than one unit.
    Probabilistic: no round, one element dealt; see NOTE [probabilistic].
    """
    if not x.pending:
        return x
    x.check_pending()
    p = p.in_roles_of(x)
    x = x.with_parts(x.parts)  # a copy: another call of a parallel block may settle x meanwhile
    limit = (min(x.limit, 1 << (p.ring.bits - 2)) >> x.pending) + 1
    if p.exact if exact is None else exact:
        return (yield from _exact(p, x, x.pending, limit))
    mask = -(-p.whole_mask(x) >> x.pending) if p.is_dealer else None
    masks = yield from deal_sharing(p, mask, x.shape)
    return p.make(None if p.is_dealer else p.opened(x) >> x.pending, masks, limit)


def _exact(p: MaskedBase, x: Arith, t: int, limit: int) -> Steps[Arith]:
    """NOTE [exact]: s_i = -q_i - 2^(k-t) c_top w_i, public terms at the leader; reshare (M2)."""

    def corrections(_: KnownShares, pads: list[Tensor]) -> list[Tensor]:
        quotient, top = deal_exact(p.whole_mask(x), t)  # q and w_top
        return [quotient - pads[0], unpack_bits(top, x.shape, p.ring.dtype) - pads[1]]

    element, narrow = ring_spec(p, x.shape), ring_spec(p, x.shape, width=t)
    [masks], dealt = yield from deal_with_masks(p, (element,), (element, narrow), corrections)
    message = None
    if not p.is_dealer:
        [quotient], [top] = dealt
        # The leader received w_top as t planes; the others drew ring elements.
        top = from_bit_planes(top, x.shape, p.ring.dtype) if p.is_leader else top
        m = p.opened(x).contiguous()
        message = exact_share(m, quotient, top, t, first=p.is_leader, minus=masks[0])
    return (yield from open_share(p, message, element, masks, limit))
