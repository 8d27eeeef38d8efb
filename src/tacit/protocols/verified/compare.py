"""Signs and equality of secrets: the bits of three parts, each known to two parties, are added up.

The bits of part i are part i of a sharing of them, without a message. A carry-save step makes two
operands of three. The sign of x is the top bit of their sum in a window of w bits that holds x with
its sign; the carry comes from a tree of ANDs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...errors import ConfigError
from ...kernels import bit_planes
from ...ring import num_words
from ..beaver.compare import guard_bits
from ..bit_trees import all_planes, carry_save, map_parts, top_bit
from ..replicated.base import CONSTANT
from ..replicated.boolean import and_parts
from ..share import Arith, Bool, Parts
from ..steps import Steps
from .base import VerifiedBase
from .verify_claims import make_room

GUARD_BITS = guard_bits(3)


def gates(p: VerifiedBase, x: Parts, y: Parts) -> Steps[Parts]:
    """Returns x & y. 1 round, 1 bit a party."""
    yield from make_room(p)
    return (yield from and_parts(p, x, y))


def sign(p: VerifiedBase, x: Arith, *, low: int = 0) -> Steps[Bool]:
    """Returns [x < 0], in 2 + ceil(log2(w - 1)) rounds.

    `low` > 0 ignores as many low bits: x in [-2^low, 0) may be taken for positive.
    """
    [bit] = yield from p.signs.steps(x, [0], low=low)
    return bit


def signs_bytes(x: Arith, thresholds: Sequence[int], low: int = 0) -> int:
    """Returns the bytes that `signs` takes for an element, until what it claims is verified."""
    return 1024 * len(thresholds)


def signs(
    p: VerifiedBase, x: Arith, thresholds: Sequence[int], *, low: int = 0
) -> Steps[list[Bool]]:
    """Returns [x < t] for each public t, in the rounds of one: 2 + ceil(log2(w - 1)) for w bits.

    A pending division is made on each part alone, as in `beaver/compare.py`, NOTE [sign of a
    quotient].
    """
    if not thresholds:
        return []
    x = x.with_parts(x.parts)  # a copy: another call may settle x meanwhile
    shift = max(x.pending + low - GUARD_BITS, 0)
    reach = (x.limit >> x.pending) + bool(x.pending) + max(map(abs, thresholds))
    reach = (reach >> low) + bool(low)  # low bits are dropped by rounding up or down
    width = max(reach.bit_length() + 1, 2) + x.pending + low - shift
    width = min(width, p.ring.bits - shift)
    if width < 2:
        raise ConfigError(f"low={low}: nothing is left of the {x.width} bits of x")
    count, words = len(thresholds), num_words(x.numel)
    planes = _threshold_planes(p, x, thresholds, width, shift)
    u, v = yield from carry_save(p.gate, operands(p, planes))
    bits = yield from top_bit(p.gate, u, v)
    cuts = [slice(n * words, (n + 1) * words) for n in range(count)]
    return [Bool(map_parts(lambda planes, c=cut: planes[:, c], bits), x.shape) for cut in cuts]


def _threshold_planes(
    p: VerifiedBase, x: Arith, thresholds: Sequence[int], width: int, shift: int
) -> Parts:
    """The bits of each part of x - t, divided, for each t, side by side.

    One part is rounded down and the others up.
    """
    planes: Parts = {}
    for part, held in x.parts.items():
        if part == CONSTANT:
            moved = [held - p.ring.wrap(t << x.pending) if t else held for t in thresholds]
            planes[part] = torch.cat([bit_planes(one, width, shift) for one in moved], 1)
        else:
            planes[part] = bit_planes(-(-held >> shift), width).repeat(1, len(thresholds))
    return planes


def operands(p: VerifiedBase, planes: Parts) -> list[Parts]:
    """Returns each part of bits, added up elsewhere, as a secret of its own."""
    zero = torch.zeros_like(planes[p.held[0]])
    return [{i: planes[i] if i == part else zero for i in p.held} for part in range(3)]


def is_zero(p: VerifiedBase, x: Arith) -> Steps[Bool]:
    """Returns [x = 0]: the AND of w bits. 1 + ceil(log2 w) rounds.

    u + v = x - 1 is -1, all ones, exactly if u ^ v is: then nothing is carried.
    """
    x = yield from p.settled.steps(x)
    width = max(x.width, 2)
    planes = map_parts(lambda part: bit_planes(part, width), p.add_public(x, -1).parts)
    u, v = yield from carry_save(p.gate, operands(p, planes))
    same = map_parts(torch.bitwise_xor, u, v)
    return Bool((yield from all_planes(p.gate, same)), x.shape)


def majority(p: VerifiedBase, planes: Parts) -> Steps[Parts]:
    """Returns the bits that two or three of the parts of `planes` have. 1 round.

    That is ((a ^ c) & (b ^ c)) ^ c.
    """
    a, b, c = operands(p, planes)
    xor = torch.bitwise_xor
    both = yield from p.gate(map_parts(xor, a, c), map_parts(xor, b, c))
    return map_parts(xor, both, c)
