"""Functions of reals written as steps over shares, and what turns them into methods."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from ...protocols import MUL, Arith
from ...protocols.steps import Interactive, Steps, together
from ..conversion import real
from ..format import Format, cap, most_pending
from ..value import Value

if TYPE_CHECKING:
    from ...protocols import Protocol

P = ParamSpec("P")


def run(n: Format, body: Callable[..., Steps[Arith]], *args: Any, **kwargs: Any) -> Arith:
    """What the steps body(n, ...) return, now or at the end of a parallel block.

    A pending division that could make a later sum wrap is made.
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
    """A method of `Format`, from the steps that compute it on a share of reals."""

    def method(n: Format, x: Value, /, *args: P.args, **kwargs: P.kwargs) -> Value:
        x = real(n, x)
        return Value(run(n, body, cap(n, x.arith), *args, **kwargs), x.dtype)

    method.__name__, method.__doc__ = body.__name__, body.__doc__
    return method


def bounded(n: Format, x: Arith, bound: float) -> Arith:
    """x with the promise that |real value| <= bound, up to a few units and 2^-8 of it."""
    units = ceil((bound * (1 + 2**-8) + 2**-8) * 2**n.fraction_bits)
    return cap(n, x.promise(units << x.pending))


def settle(n: Format, *shares: Arith) -> Steps[tuple[Arith, ...]]:
    """The shares with nothing pending, in one round."""
    return (yield from together(*(exactly(n, share) for share in shares)))


def exactly(n: Format, x: Arith) -> Steps[Arith]:
    """x with nothing pending. Integers here fill the ring, so no division is left to chance."""
    if n.protocol.exact or not x.pending:
        return (yield from n.protocol.settled.steps(x))
    return (yield from n.protocol.truncate.steps(x, exact=True))


def product(n: Format, x: Arith, y: Arith, *, shift: int) -> Steps[Arith]:
    """x y / 2^shift. The division is pending where those of the protocol are exact."""
    p = n.protocol
    x, y = yield from settle(n, x, y)
    if p.exact:
        return (yield from p.bilinear.steps(MUL, x, y, shift=shift))
    return (yield from exactly(n, (yield from p.bilinear.steps(MUL, x, y)).divided(shift)))
