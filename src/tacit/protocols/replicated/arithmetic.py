"""Products of secrets.

Party i holds parts i+1 and i+2 (mod 3) of every secret. Of the nine products x_a y_b it computes
three: those of its parts that the other parties do not compute.
"""

from __future__ import annotations

from functools import cache

from torch import Tensor

from ...transport import Sendable, Spec, Tiled, computed
from ..products.bilinear import MUL, Bilinear
from ..randomness import Stream, mask_stream
from ..share import Arith, Parts
from ..steps import Round, Steps, together
from .base import ReplicatedBase
from .truncation import replicate_truncated


@cache
def zero_terms(part: int) -> Stream:
    """Returns the stream of K_part that hides what party part+1 sends to party `part`.

    The other holder of the key, party part+2, adds the same words, so that the sum is unchanged.
    """
    return mask_stream("product", (part + 1) % 3, (part + 2) % 3, part)


def product_share(p: ReplicatedBase, op: Bilinear, x: Parts, y: Parts) -> Tensor:
    """Returns this party's z_i, where z_0 + z_1 + z_2 = op(x, y). Local."""
    return computed(sent_share(p, op, x, y))


def sent_share(p: ReplicatedBase, op: Bilinear, x: Parts, y: Parts) -> Sendable:
    """Returns z_i as `product_share` does, to be sent: a large one is computed meanwhile.

    z_i = x_{i+1} (y_{i+1} + y_{i+2}) + x_{i+2} y_{i+1} + F(K_{i+1}) - F(K_{i+2}); the six masks add
    up to zero. NOTE [mask]: each other party lacks one of the two keys, so z_i is uniform to it;
    without the masks the receiver could solve for the part that it lacks.
    """
    i, j = p.held  # i+1 and i+2 of the formula
    terms = [(x[i], [y[i], y[j]]), (x[j], [y[i]])]
    if x is y and op == MUL:  # x_{i+1} (x_{i+1} + 2 x_{i+2}) in one product
        terms = [(x[i], [x[i] + 2 * x[j]])]
    masks = [(zero_terms(i), "add"), (zero_terms(j), "sub")]
    return p.context.products.masked(op, terms, p.context.randomness, masks)


def replicate(p: ReplicatedBase, z: Sendable, *, ahead: bool = False) -> Steps[Parts]:
    """Returns the parts that this party holds of the sum of all z_i. 1 round, 1 element a party.

    z_i becomes part i+1, and party i sends it to party i-1, which holds that part too.
    """
    i, j = p.held
    spec = Spec(tuple(z.shape), z.dtype)
    received = yield Round(send={p.previous: [z]}, receive={p.next: [spec]}, ahead=ahead)
    return {i: z.whole if isinstance(z, Tiled) else z, j: received[p.next][0]}


def bilinear(
    p: ReplicatedBase, op: Bilinear, x: Arith, y: Arith, *, shift: int = 0
) -> Steps[Arith]:
    """Returns op(x, y) / 2^shift; an exact division stays pending. 1 round, 1 element a party.

    With a probabilistic division 2 rounds, and still 3 elements in all.
    """
    if y is x:
        x = y = yield from p.settled.steps(x)
    else:
        x, y = yield from together(p.settled.steps(x), p.settled.steps(y))
    limit = x.limit * y.limit * op.terms(x.shape, y.shape)
    if shift and not p.exact:
        z = product_share(p, op, x.parts, y.parts)
        return (yield from replicate_truncated(p, z, shift, limit))
    parts = yield from replicate(p, sent_share(p, op, x.parts, y.parts))
    p.note_product(op, x.parts, y.parts, parts)
    return Arith(parts, p.ring, limit=limit).divided(shift)
