"""Products of secrets by Beaver triples.

With shares of uniform a, b and c = a b, the parties open e = x - a and d = y - b, and
    x y = c + e b + a d + e d,
where party i adds c_i + e b_i + a_i d and the leader e d. Opened values are uniform to everybody,
because no party knows a or b.
"""

from __future__ import annotations

from torch import Tensor

from ..products.bilinear import MUL, Bilinear
from ..share import Arith
from ..steps import Steps, together
from .base import BeaverBase, open_hidden


def bilinear(p: BeaverBase, op: Bilinear, x: Arith, y: Arith, *, shift: int = 0) -> Steps[Arith]:
    """Returns op(x, y) / 2^shift; an exact division stays pending.

    1 round; each party sends both operands to each other party, or the one of a square.
    """
    if y is x:
        x = y = yield from p.settled.steps(x)
    elif x.pending or y.pending:
        x, y = yield from together(p.settled.steps(x), p.settled.steps(y))
    limit = x.limit * y.limit * op.terms(x.shape, y.shape)
    own = yield from (_square(p, x) if x is y and op == MUL else _product(p, op, x, y))
    z = p.make(own, limit).divided(shift)
    return z if p.exact or not shift else (yield from p.truncate.steps(z))


def _product(p: BeaverBase, op: Bilinear, x: Arith, y: Arith) -> Steps[Tensor]:
    a, b, c = yield from p.source.bilinear_triple(op, x.shape, y.shape, (x.owner, y.owner))
    (e, d), _ = yield from open_hidden(p, [p.own(x) - a, p.own(y) - b], [])
    if p.is_dealer:
        return c
    return p.context.products.sum(op, [(e, [b, d] if p.is_leader else [b]), (a, [d])]) + c


def _square(p: BeaverBase, x: Arith) -> Steps[Tensor]:
    """x^2 = c + 2 e a + e^2, for c = a^2."""
    a, c = yield from p.source.square_pair(x.shape)
    [e], _ = yield from open_hidden(p, [p.own(x) - a], [])
    if p.is_dealer:
        return c
    return MUL(e, a * 2 + e if p.is_leader else a * 2) + c
