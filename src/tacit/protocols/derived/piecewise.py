"""Functions of a secret integer that are linear between public thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import ConfigError
from ..core import BitSum, ProtocolCore
from ..share import Arith, Bool
from ..steps import Steps, together


class Line(NamedTuple):
    """scale x + offset, for public integers."""

    scale: int
    offset: int

    def limit(self, x: Arith) -> int:
        """Returns a bound on the absolute value of the line at x."""
        return abs(self.scale) * x.limit + abs(self.offset)


def piecewise(
    p: ProtocolCore,
    x: Arith,
    thresholds: Sequence[int],
    functions: Sequence[Sequence[Line]],
    *,
    low: int = 0,
) -> Steps[list[Arith]]:
    """Returns the value at x of each function, given as its lines from left to right.

    Line e applies where exactly e thresholds are at most x; thresholds ascend. r + 1 rounds for all
    functions together. With o_e = [x is on line e], the value is last(x) + sum over e of
    o_e (line_e - last)(x). Masked evaluation deals an element for each line but the last, and one
    more if its scale differs from the last's, and opens one element a function. `low` ignores as
    many low bits: less than 2^low below a threshold, x may be taken to have reached it.
    """
    for lines in functions:
        if len(lines) != len(thresholds) + 1:
            raise ConfigError(
                f"{len(lines)} lines", limit=f"{len(thresholds)} thresholds need one line more"
            )
    if not thresholds:
        x = yield from p.settled.steps(x)
        return [p.add_public(x.scaled(line.scale), line.offset) for [line] in functions]
    below, x = yield from together(p.signs.steps(x, thresholds, low=low), p.settled.steps(x))
    coefficients = [_bit_sum(lines) for lines in functions]
    sums = yield from p.inject_sums.steps(one_hot(p, below), x, coefficients)
    return [
        _plus(p, total, lines[-1], x).promise(max(line.limit(x) for line in lines))
        for lines, total in zip(functions, sums, strict=True)
    ]


def one_hot(p: ProtocolCore, below: Sequence[Bool]) -> list[Bool]:
    """Returns [x is left of all thresholds], [between the first two], ...; not the last. Local."""
    first, *others = below
    return [first, *(p.bit_xor(a, b) for a, b in zip(below, others, strict=False))]


def _bit_sum(lines: Sequence[Line]) -> BitSum:
    *others, last = lines
    scales = tuple(line.scale - last.scale for line in others)
    return BitSum(scales, tuple(line.offset - last.offset for line in others))


def _plus(p: ProtocolCore, total: Arith, line: Line, x: Arith) -> Arith:
    if line.scale:
        total = p.add(total, x.scaled(line.scale))
    return p.add_public(total, line.offset) if line.offset else total


def quotient_limit(x: Arith) -> int:
    """Returns a bound on |x / 2^pending|, rounded up or down."""
    return (x.limit >> x.pending) + bool(x.pending)
