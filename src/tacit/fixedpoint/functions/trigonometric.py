"""Sine, cosine and tangent. A phase is an integer modulo a power of two: it wraps by itself."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

from ...protocols import Arith
from ...protocols.steps import Steps
from ..value import Value
from .quotient import divide
from .steps import bounded, exactly, function

if TYPE_CHECKING:
    from ..numbers import Numbers

# The phase keeps at least this many bits more than x.
LEAST_BITS = 28


@function
def sine(n: Numbers, x: Arith) -> Steps[Arith]:
    """sin x. Error: two units, and |x| 2^-28. One round and a division with a dealer."""
    return (yield from _wave(n, x, 0))


@function
def cosine(n: Numbers, x: Arith) -> Steps[Arith]:
    """cos x, as `sine`."""
    return (yield from _wave(n, x, 1))


def tangent(n: Numbers, x: Value) -> Value:
    """sin x / cos x; near its poles it saturates."""
    x = n.settled(x)
    return divide(n, sine(n, x), cosine(n, x))


def _wave(n: Numbers, x: Arith, quarters: int) -> Steps[Arith]:
    """sin(x + quarters pi / 2), from x as a number of turns."""
    p = n.protocol
    turns, period = yield from (_wrapping if p.dealt_tables else _reduced)(n, x)
    turns = p.add_public(turns, quarters << (period - 2)) if quarters else turns
    wave = yield from p.fourier.steps(
        turns, [1.0], period_bits=period, fraction_bits=n.fraction_bits
    )
    return bounded(n, wave, 1.0)


def _wrapping(n: Numbers, x: Arith) -> Steps[tuple[Arith, int]]:
    """x / 2 pi with as many fraction bits as the ring has, and their number."""
    if n.ring.bits - n.fraction_bits - x.pending < LEAST_BITS:
        x = yield from n.protocol.settled.steps(x)
    bits = n.ring.bits - n.fraction_bits - x.pending
    return x.scaled(round(2**bits / (2 * pi))), n.fraction_bits + bits


def _reduced(n: Numbers, x: Arith) -> Steps[tuple[Arith, int]]:
    """x / 2 pi less whole turns; what is left is a turn at most. Two divisions.

    x = 2^s high + low: high times the turns of 2^s, less whole ones, and low times those of 1.
    """
    p, f = n.protocol, n.fraction_bits
    x = yield from p.settled.steps(x)
    size = x.limit.bit_length()
    cut = size // 2
    period = n.ring.bits - 5 - (size - cut)
    high = yield from exactly(n, p.add_public(x, 0).divided(cut))
    low = p.sub(x, high.scaled(1 << cut)).promise(2 << cut)
    part = round((2.0 ** (cut - f) / (2 * pi)) % 1.0 * 2**period)
    turns = p.add(high.scaled(part), low.scaled(round(2.0 ** (period - f) / (2 * pi))))
    whole = yield from exactly(n, p.add_public(turns, 0).divided(period))
    return p.sub(turns, whole.scaled(1 << period)).promise(1 << period), period
