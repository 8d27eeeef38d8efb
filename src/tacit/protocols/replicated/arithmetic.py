"""Products of secrets.

Party i holds parts i+1 and i+2 (mod 3) of every secret, and the keys that these parts are drawn
from. Of the nine products of parts it computes those of its own two that nobody else is to compute.
"""

from __future__ import annotations

from torch import Tensor

from ...transport import Spec
from ..products.bilinear import MUL, Bilinear
from ..share import Arith, Parts
from ..steps import Round, Steps, together
from ..three_party.io import holders
from .base import ReplicatedBase
from .truncation import replicate_truncated


def product_share(p: ReplicatedBase, op: Bilinear, x: Parts, y: Parts) -> Tensor:
    """This party's z_i, where z_0 + z_1 + z_2 = op(x, y); uniform to each other party.

    z_i = x_{i+1} (y_{i+1} + y_{i+2}) + x_{i+2} y_{i+1} + F(K_{i+1}) - F(K_{i+2}), and the masks of
    the three cancel. NOTE [mask]: the others each lack one of the two keys, so whoever receives z_i
    learns nothing from it; without the masks it could solve for the part that it lacks.
    """
    i, j = p.held
    if x is y and op == MUL:
        z = op(x[i], x[i] + 2 * x[j])
    else:
        z = p.context.products.sum(op, [(x[i], [y[i], y[j]]), (x[j], [y[i]])])
    z = p.context.randomness.mask(holders(i), z, "add")
    return p.context.randomness.mask(holders(j), z, "sub")


def replicate(p: ReplicatedBase, z: Tensor, *, ahead: bool = False) -> Steps[Parts]:
    """The parts that this party holds of the sum of all z_i: its own, and its neighbour's.

    z_i becomes part i+1 and goes to party i-1, who holds that too. 1 round, 1 element a party.
    """
    i, j = p.held
    spec = Spec(tuple(z.shape), z.dtype)
    received = yield Round(send={p.previous: [z]}, receive={p.next: [spec]}, ahead=ahead)
    return {i: z, j: received[p.next][0]}


def bilinear(
    p: ReplicatedBase, op: Bilinear, x: Arith, y: Arith, *, shift: int = 0
) -> Steps[Arith]:
    """op(x, y) / 2^shift; the division is pending where truncation is exact. 1 round, 1 el each.

    With the probabilistic division 2 rounds, still 3 elements in all.
    """
    if y is x:
        x = y = yield from p.settled.steps(x)
    else:
        x, y = yield from together(p.settled.steps(x), p.settled.steps(y))
    limit = x.limit * y.limit * op.terms(x.shape, y.shape)
    z = product_share(p, op, x.parts, y.parts)
    if shift and not p.exact:
        return (yield from replicate_truncated(p, z, shift, limit))
    parts = yield from replicate(p, z)
    return Arith(parts, p.ring, limit=limit).divided(shift)
