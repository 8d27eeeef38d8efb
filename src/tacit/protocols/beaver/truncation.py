"""Division of secrets by 2^t, with a dealer.

NOTE [two parts]: two parties divide each part alone, one down and one up: x_0 / 2^t + x_1 / 2^t is
floor(x / 2^t) or that plus one, unless x_0 + x_1 wraps: with probability |x| / 2^k for each
element, and then it is off by 2^(k-t).

NOTE [wraps of more parts]: the sum of more parts wraps more than once, almost always. CrypTen has
the parties send x_i + r_i to one of them, which counts the wraps. Here they send the same to the
same party, but it divides the sum, and the dealer deals the quotient of the mask. That costs as
much, fails as often as two parts do, and rounds once, where dividing n parts rounds n times.

Exact: the parties open x under a mask z, and the dealer deals what masked evaluation needs to
divide such a value (NOTE [exact] of `masked/truncation.py`). No mask makes this wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ...kernels import exact_share
from ...transport import Spec
from ..share import Arith
from ..steps import PASS, Round, Steps
from .base import BeaverBase, open_hidden

if TYPE_CHECKING:
    from .protocol import Beaver


def settled(p: BeaverBase, x: Arith) -> Steps[Arith]:
    """Returns x with nothing pending. x itself becomes that share, so it is paid for once."""
    if x.pending:
        x.settle((yield from p.truncate.steps(x)))
    return x


def quotient_limit(p: BeaverBase, x: Arith) -> int:
    """Returns a bound on x / 2^pending, rounded up or down, for |x| < 2^(k-2)."""
    return (min(x.limit, 1 << (p.ring.bits - 2)) >> x.pending) + 1


def truncate(p: Beaver, x: Arith, *, exact: bool | None = None) -> Steps[Arith]:
    """Returns x / 2^pending, rounded down or up; |x| < 2^(k-2).

    Exact: 1 round, k + t bits dealt, one element each way. Probabilistic: nothing is sent by two
    parties; of more, all send one element to the last, in 1 round, and one is dealt.
    """
    if not x.pending:
        return x
    x.check_pending()
    limit, own, t = quotient_limit(p, x), p.own(x), x.pending
    if p.exact if exact is None else exact:
        return p.make((yield from _exact(p, own, t)), limit)
    if p.parties == 2:
        return p.make(divided_part(p, own, t), limit)
    return p.make((yield from _counted(p, own, t)), limit)


def divided_part(p: BeaverBase, own: Tensor, t: int) -> Tensor:
    """Returns this party's part divided by 2^t: down at the leader, up at all others. Local."""
    return own >> t if p.is_leader else -(-own >> t)


def _exact(p: Beaver, own: Tensor, t: int) -> Steps[Tensor]:
    z, quotient, top = yield from p.source.exact_division(own.shape, t)
    [m], _ = yield from open_hidden(p, [own - z], [])
    if p.is_dealer:
        return quotient
    out = p.zeros(own.shape)
    return exact_share(m, quotient.contiguous(), top.contiguous(), t, first=p.is_leader, out=out)


def _counted(p: Beaver, own: Tensor, t: int) -> Steps[Tensor]:
    """NOTE [wraps of more parts]: the leader alone learns m = x - z."""
    z, quotient = yield from p.source.division(own.shape, t)
    if p.is_dealer:
        yield PASS
        return quotient
    m = own - z
    if not p.is_leader:
        yield Round({p.parties - 1: [m]})
        return quotient
    spec = Spec(tuple(m.shape), m.dtype)
    received = yield Round(receive={other: [spec] for other in p.others})
    for other in p.others:
        m = m + received[other][0]
    return quotient + (m >> t)
