"""Division of secrets by 2^t.

The exact division is that of `trio` on the same shares, with the adder as the dealer.

NOTE [probabilistic]: the adder a knows s = x_{a+1} + x_{a+2}, the two others x_a, and
floor(x_a / 2^t) + ceil(s / 2^t) is floor(x / 2^t) or that plus one, unless x_a + s wraps: with
probability |x| / 2^k for each element, and then it is off by 2^(k-t) (ABY3, section 5.1). To divide
the three parts one by one would be wrong in a quarter of the cases.
"""

from __future__ import annotations

from torch import Tensor

from ...transport import Spec
from ..share import Arith, Parts
from ..steps import Round, Steps
from ..three_party.io import share_parts
from .base import ReplicatedBase


def settled(p: ReplicatedBase, x: Arith) -> Steps[Arith]:
    """Returns x with nothing pending. x itself becomes that share, so it is paid for once."""
    if x.dealer is not None:
        return (yield from p.as_trio(x.dealer).settled.steps(x))
    if x.pending:
        x.settle((yield from p.truncate.steps(x)))
    return x


def truncate(p: ReplicatedBase, x: Arith, *, exact: bool | None = None) -> Steps[Arith]:
    """Returns x / 2^pending, rounded down or up; |x| < 2^(k-2).

    Exact: 1 round, k + t bits from the adder ahead, one element each way between the two others.
    Probabilistic: 1 round, one element from the adder; see NOTE [probabilistic].
    """
    if not x.pending:
        return x
    exact = p.exact if exact is None else exact
    if exact or x.dealer is not None:
        dealer = p.adder if x.dealer is None else x.dealer
        return (yield from p.as_trio(dealer).truncate.steps(x, exact=exact))
    spec = Spec(tuple(x.shape), p.ring.dtype)
    parts = yield from _divided(p, x.parts, spec, x.pending)
    return Arith(parts, p.ring, limit=_quotient_limit(p, x.limit, x.pending))


def replicate_truncated(p: ReplicatedBase, z: Tensor, t: int, limit: int) -> Steps[Arith]:
    """Returns the sum of all z_i, divided by 2^t probabilistically. 2 rounds, 3 elements in all.

    Round 1: the two other parties send z_i to the previous party, so that the adder has two parts
    and the others have part a. The adder sends nothing: the share of its quotient replaces its z.
    """
    (own, received_part), spec = p.held, Spec(tuple(z.shape), z.dtype)
    send = {} if p.rank == p.adder else {p.previous: [z]}
    receive = {} if p.next == p.adder else {p.next: [spec]}
    received = yield Round(send=send, receive=receive)
    parts = {own: z}
    if p.next != p.adder:
        parts[received_part] = received[p.next][0]
    quotient = yield from _divided(p, parts, spec, t)
    return Arith(quotient, p.ring, limit=_quotient_limit(p, limit, t))


def _divided(p: ReplicatedBase, parts: Parts, spec: Spec, t: int) -> Steps[Parts]:
    """NOTE [probabilistic]: the adder shares ceil(s / 2^t); the others set part a. 1 round."""
    a, (i, j) = p.adder, p.held
    above = -(-(parts[i] + parts[j]) >> t) if p.rank == a else None
    quotient = yield from share_parts(p, above, a, spec)
    if p.rank != a:
        quotient[a] = parts[a] >> t
    return quotient


def _quotient_limit(p: ReplicatedBase, limit: int, t: int) -> int:
    return (min(limit, 1 << (p.ring.bits - 2)) >> t) + 1
