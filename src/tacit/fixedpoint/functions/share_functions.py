"""Turns generators of rounds over shares into functions of values, and the parts they use.

A function of a real is written as a generator over its share: it yields rounds (protocols/steps.py)
and returns a share. `function` makes it a function of values.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from ...protocols import MUL, Arith
from ...protocols.steps import Interactive, Steps, together
from ..format import Format, cap, most_pending
from ..value import Value, real

if TYPE_CHECKING:
    from ...protocols import Protocol

P = ParamSpec("P")


def run(n: Format, body: Callable[..., Steps[Arith]], *args: Any, **kwargs: Any) -> Arith:
    """Returns the result of the steps body(n, ...), now or at the end of a parallel block.

    Divides at once if a later sum could wrap with the division pending.
    """

    def steps(p: Protocol, *args: Any, **kwargs: Any) -> Steps[Arith]:
        share = yield from body(n, *args, **kwargs)
        if share.pending > most_pending(n):
            share = yield from p.settled.steps(share)
        return share

    steps.__name__, steps.__doc__ = body.__name__, body.__doc__
    share: Arith = Interactive(steps, Arith).__get__(n.protocol)(*args, **kwargs)
    return share


def function(
    body: Callable[Concatenate[Format, Arith, P], Steps[Arith]],
) -> Callable[Concatenate[Format, Value, P], Value]:
    """Returns a function of values for steps that compute it on a share of reals."""

    def of_values(n: Format, x: Value, /, *args: P.args, **kwargs: P.kwargs) -> Value:
        x = real(n, x)
        return Value(run(n, body, cap(n, x.arith), *args, **kwargs), x.dtype)

    of_values.__name__, of_values.__doc__ = body.__name__, body.__doc__
    return of_values


def bounded(n: Format, x: Arith, bound: float) -> Arith:
    """Returns x with the promise |real value| <= bound (1 + 2^-8) + 2^-8."""
    units = ceil((bound * (1 + 2**-8) + 2**-8) * 2**n.fraction_bits)
    return cap(n, x.promise(units << x.pending))


def settle(n: Format, *shares: Arith) -> Steps[tuple[Arith, ...]]:
    """Returns the shares with nothing pending, all in the rounds of one division."""
    return (yield from together(*(settle_exactly(n, share) for share in shares)))


def settle_exactly(n: Format, x: Arith) -> Steps[Arith]:
    """Returns x with nothing pending, divided exactly.

    The integers of these functions fill the ring: a probabilistic division would often fail.
    """
    if n.protocol.exact or not x.pending:
        return (yield from n.protocol.settled.steps(x))
    return (yield from n.protocol.truncate.steps(x, exact=True))


def product(n: Format, x: Arith, y: Arith, *, shift: int) -> Steps[Arith]:
    """Returns x y / 2^shift. Its division is pending if the divisions of the protocol are exact."""
    p = n.protocol
    x, y = yield from settle(n, x, y)
    if p.exact:
        return (yield from p.bilinear.steps(MUL, x, y, shift=shift))
    return (yield from settle_exactly(n, (yield from p.bilinear.steps(MUL, x, y)).divided(shift)))
