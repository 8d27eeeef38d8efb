"""Selection between secrets by secret bits, and the comparisons that select.

A pending division of an operand is made on the way, in the rounds given here; the result has
nothing pending and is at most one unit off the quotient. If two such operands are less than a unit
apart, a comparison of them may go either way: then the result is at most two units off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from ...errors import ConfigError
from ..core import BitSum, ProtocolCore
from ..share import Arith, Bool
from ..steps import Steps, together
from .piecewise import Line, piecewise, quotient_limit

S = TypeVar("S", Arith, Bool)
BIT = BitSum((0,), (1,))


def to_arith(p: ProtocolCore, bit: Bool) -> Steps[Arith]:
    """Returns the bit as a ring element, 0 or 1. 1 round."""
    [value] = yield from p.inject_sums.steps([bit], None, [BIT])
    return value


def select(p: ProtocolCore, bit: Bool, x: Arith, y: Arith) -> Steps[Arith]:
    """Returns x where the bit is 1, y elsewhere, with broadcasting. 1 round, one injection.

    y + b (x - y). If divisions of both are pending, b x + (1 - b) y: two injections, so that each
    quotient is rounded by itself.
    """
    shape = torch.broadcast_shapes(bit.shape, x.shape, y.shape)
    bit, limit = spread(bit, shape), max(quotient_limit(x), quotient_limit(y))
    if y.pending and not x.pending:
        bit, x, y = p.bit_not(bit), y, x
    if not y.pending:
        difference = spread(p.sub(x, y), shape)
        chosen = yield from p.inject.steps(bit, difference)
        return p.add(y, chosen).promise(limit)
    one, other = yield from together(
        p.inject.steps(bit, spread(x, shape)),
        p.inject.steps(p.bit_not(bit), spread(y, shape)),
    )
    return p.add(one, other).promise(limit)


def relu(p: ProtocolCore, x: Arith, *, low: int = 0) -> Steps[Arith]:
    """Returns x where x >= 0, else 0. r + 1 rounds; a pending division costs none.

    `low` > 0 ignores as many low bits in the comparison: x in [-2^low, 0) may pass unchanged.
    """
    positive, _ = yield from p.relu_with_bit.steps(x, low=low)
    return positive


def relu_with_bit(p: ProtocolCore, x: Arith, *, low: int = 0) -> Steps[tuple[Arith, Bool]]:
    """Returns relu(x), and the bits [x >= 0] that its gradient needs. r + 1 rounds."""
    limit = quotient_limit(x)
    bit = p.bit_not((yield from p.sign.steps(x, low=low)))
    positive = yield from p.inject.steps(bit, x)
    return positive.promise(limit), bit


def relu_backward(p: ProtocolCore, bit: Bool, grad: Arith) -> Steps[Arith]:
    """Returns the gradient by the input of relu, from the bits of `relu_with_bit`. 1 round."""
    return (yield from p.inject.steps(spread(bit, grad.shape), grad))


def absolute(p: ProtocolCore, x: Arith) -> Steps[Arith]:
    """Returns |x| = x - 2 [x < 0] x. r + 1 rounds."""
    limit = quotient_limit(x)
    negative, x = yield from together(p.sign.steps(x), p.settled.steps(x))
    flipped = yield from p.inject.steps(negative, x.scaled(2))
    return p.sub(x, flipped).promise(limit)


def clip(p: ProtocolCore, x: Arith, low: int, high: int) -> Steps[Arith]:
    """Returns x limited to [low, high], public integers. r + 1 rounds, 3 elements dealt."""
    if low > high:
        raise ConfigError(f"low={low}, high={high}", limit="low is at most high")
    lines = [Line(0, low), Line(1, 0), Line(0, high)]
    [clipped] = yield from piecewise(p, x, [low, high], [lines])
    return clipped.promise(max(abs(low), abs(high)))


def less(p: ProtocolCore, x: Arith, y: Arith) -> Steps[Bool]:
    """Returns [x < y], with broadcasting. r rounds, in a window of one bit more than operands."""
    return (yield from p.sign.steps(p.sub(x, y)))


def less_public(p: ProtocolCore, x: Arith, value: Tensor | int) -> Steps[Bool]:
    """Returns [x < value] for public integers of the scale of x. r rounds."""
    return (yield from p.sign.steps(p.add_public(x, -value)))


def equal(p: ProtocolCore, x: Arith, y: Arith) -> Steps[Bool]:
    """Returns [x = y], with broadcasting. Rounds of `is_zero`, after pending divisions."""
    return (yield from p.is_zero.steps(p.sub(x, y)))


def maximum(p: ProtocolCore, x: Arith, y: Arith) -> Steps[Arith]:
    """Returns the larger of x and y, with broadcasting. r + 1 rounds."""
    smaller = yield from less(p, x, y)
    return (yield from select(p, p.bit_not(smaller), x, y))


def minimum(p: ProtocolCore, x: Arith, y: Arith) -> Steps[Arith]:
    """Returns the smaller of x and y, with broadcasting. r + 1 rounds."""
    smaller = yield from less(p, x, y)
    return (yield from select(p, smaller, x, y))


def spread(x: S, shape: Sequence[int]) -> S:
    """Returns x expanded to `shape`. Local."""
    return x if x.shape == torch.Size(shape) else x.expand(*shape)
