"""Functions of a secret that are linear between public thresholds."""

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
        return abs(self.scale) * x.limit + abs(self.offset)


def piecewise(
    p: ProtocolCore, x: Arith, thresholds: Sequence[int], functions: Sequence[Sequence[Line]]
) -> Steps[list[Arith]]:
    """For each function, given as its lines from left to right, its value at x.

    Line e holds where e thresholds are at most x; thresholds ascend. r + 1 rounds for all functions
    together. With o_e = [x is on line e], the value is last(x) + sum over e of
    o_e (line_e - last)(x). Dealt in masked evaluation: an element for each line but the last, and
    one more where the scale differs from the last's; opened: an element a function.
    """
    for lines in functions:
        if len(lines) != len(thresholds) + 1:
            raise ConfigError(f"{len(lines)} lines: {len(thresholds)} thresholds need one more")
    if not thresholds:
        x = yield from p.settled.steps(x)
        return [p.add_public(x.scaled(line.scale), line.offset) for [line] in functions]
    below, x = yield from together(p.signs.steps(x, thresholds), p.settled.steps(x))
    rows = [_row(lines) for lines in functions]
    sums = yield from p.inject_sums.steps(one_hot(p, below), x, rows)
    return [
        _plus(p, total, lines[-1], x).promise(max(line.limit(x) for line in lines))
        for lines, total in zip(functions, sums, strict=True)
    ]


def one_hot(p: ProtocolCore, below: Sequence[Bool]) -> list[Bool]:
    """[x is left of all thresholds], [between the first two], ...; not the last. Local."""
    first, *others = below
    return [first, *(p.bit_xor(a, b) for a, b in zip(below, others, strict=False))]


def _row(lines: Sequence[Line]) -> BitSum:
    *others, last = lines
    scales = tuple(line.scale - last.scale for line in others)
    return BitSum(scales, tuple(line.offset - last.offset for line in others))


def _plus(p: ProtocolCore, total: Arith, line: Line, x: Arith) -> Arith:
    if line.scale:
        total = p.add(total, x.scaled(line.scale))
    return p.add_public(total, line.offset) if line.offset else total


def quotient_limit(x: Arith) -> int:
    """What |x / 2^pending| cannot exceed, rounded up or down."""
    return (x.limit >> x.pending) + bool(x.pending)
