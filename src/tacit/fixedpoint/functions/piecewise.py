"""Piecewise linear functions with public thresholds, signs, and the parts of ELU."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

import torch

from ...protocols import Arith, BitSum, Bool
from ...protocols.derived.piecewise import Line
from ...protocols.steps import Interactive, Steps, together
from ..encoding import encode
from ..format import Format, cap
from ..value import Value, comparable, convert, real

if TYPE_CHECKING:
    from ...protocols import Protocol


def piecewise(
    n: Format, x: Value, thresholds: Sequence[float], lines: Sequence[tuple[int, float]]
) -> Value:
    """Returns slope x + offset for the line (slope, offset) on which x lies. r + 1 rounds.

    Lines are given from left to right; slopes are integers. A threshold belongs to the line at its
    right.
    """
    bits = n.bits_of(x.dtype)
    ends = [_threshold(n, t, bits) for t in thresholds]
    scaled = [Line(slope, encode(n, offset, bits)) for slope, offset in lines]
    share = comparable(n, x.arith, [*ends, *(line.offset for line in scaled)])
    [value] = n.protocol.piecewise(share, ends, [scaled])
    return Value(cap(n, value), x.dtype)


def between(n: Format, x: Value, low: float, high: float) -> Value:
    """Returns [low < x < high]. r rounds."""
    bits = n.bits_of(x.dtype)
    ends = [_threshold(n, low, bits) + 1, _threshold(n, high, bits)]
    p = n.protocol
    if ends[0] >= ends[1]:
        return Value(p.pack(torch.zeros(x.shape, dtype=torch.bool)), torch.bool)
    first, second = p.signs(comparable(n, x.arith, ends), ends)
    return Value(p.bit_xor(first, second), torch.bool)


def _threshold(n: Format, t: float, bits: int) -> int:
    """Returns a threshold as a ring element; one beyond the range is moved to its end."""
    end = 2.0 ** (n.range_bits + n.fraction_bits - bits)
    return encode(n, min(max(t, -end), end), bits)


def sign(n: Format, x: Value) -> Value:
    """Returns -1, 0 or 1. r + 1 rounds."""
    if x.is_bit:
        return x
    p = n.protocol
    below = p.signs(cap(n, x.arith), [0, 1])
    [total] = p.inject_sums(below, None, [BitSum((0, 0), (-1, -1))])
    return convert(n, Value(p.add_public(total, 1), torch.int64), x.dtype)


def elu_parts(n: Format, x: Value) -> tuple[Value, Value, Value]:
    """Returns max(x, 0), e^min(x, 0) - 1, and [x >= 0], which ELU and its gradient need.

    r + 1 rounds with a dealer. Error: a few units.
    """
    x = real(n, x)

    def steps(p: Protocol) -> Steps[tuple[Arith, Arith, Bool]]:
        return (yield from _elu_parts(n, cap(n, x.arith)))

    results: Any = Interactive(steps, Arith, Arith, Bool).__get__(n.protocol)()
    positive, power, bit = results
    return Value(positive, x.dtype), Value(cap(n, power), x.dtype), Value(bit, torch.bool)


def _elu_parts(n: Format, x: Arith) -> Steps[tuple[Arith, Arith, Bool]]:
    """Multiplies e^x by the bit [end <= x < 0], below which it is 0, and adds 1 for x >= 0."""
    p, f = n.protocol, n.fraction_bits
    end = -round((f + 2) * log(2) * 2**f)
    signs, power = yield from together(
        p.signs.steps(x, [end, 0]), p.exp_negative.steps(x, fraction_bits=f)
    )
    far, negative = signs
    bit, one = p.bit_not(negative), 1 << f
    [positive, inner], [ones] = yield from together(
        together(p.inject.steps(bit, x), p.inject.steps(p.bit_xor(far, negative), power)),
        p.inject_sums.steps([bit], None, [BitSum((0,), (one,))]),
    )
    return positive, p.add_public(p.add(inner, ones), -one).promise(2 * one), bit
