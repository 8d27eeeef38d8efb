"""Signs and equality of secrets.

The adder a knows u = x_{a+1} + x_{a+2} and shares its bits as an input; v = x_a is known to the two
others, so that its bits are part a of a sharing without a message. The sign of x is the top bit of
u + v in a window of w bits that holds x with its sign; the carry comes from a tree of ANDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from ...errors import ConfigError
from ...kernels import bit_planes
from ...ring import num_words
from ...transport import Spec
from ..bit_trees import all_planes, map_parts, top_bit
from ..share import Arith, Bool, Parts
from ..steps import Steps
from ..three_party.io import share_parts
from .base import ReplicatedBase
from .boolean import and_parts


def sign(p: ReplicatedBase, x: Arith, *, low: int = 0) -> Steps[Bool]:
    """Returns [x < 0], in 2 + ceil(log2(w - 1)) rounds.

    `low` > 0 ignores as many low bits: x in [-2^low, 0) may be taken for positive.
    """
    [bit] = yield from p.signs.steps(x, [0], low=low)
    return bit


def signs_bytes(x: Arith, thresholds: Sequence[int], low: int = 0) -> int:
    """Returns the bytes that `signs` takes for an element."""
    return 96 * len(thresholds)


def signs(
    p: ReplicatedBase, x: Arith, thresholds: Sequence[int], *, low: int = 0
) -> Steps[list[Bool]]:
    """Returns [x < t] for each public t, in the rounds of one: 2 + ceil(log2(w - 1)) for w bits.

    The bits of u are shared once; thresholds are subtracted from v, which costs nothing.
    NOTE [sign of a quotient]: a pending division by 2^t is made on u and v alone. If that wraps, it
    is wrong by a multiple of 2^(k-t), which a window of w <= k-t bits does not see: the sign is
    that of the exact quotient.
    """
    if not thresholds:
        return []
    if x.dealer is not None:
        x = yield from p.settled.steps(x)
    x = x.with_parts(x.parts)  # a copy: another call may settle x meanwhile
    shift = x.pending + low
    reach = (x.limit >> x.pending) + bool(x.pending) + max(map(abs, thresholds))
    reach = (reach >> low) + bool(low)  # low bits are dropped by rounding up or down
    width = min(max(reach.bit_length() + 1, 2), p.ring.bits - shift)
    if width < 2:
        raise ConfigError(f"low={low}: nothing is left of the {x.width} bits of x")
    count, words = len(thresholds), num_words(x.numel)
    once = yield from _sum_bits(p, x, width, shift)
    u = map_parts(lambda planes: planes.repeat(1, count), once)
    v = _part_bits(p, x, [t << x.pending for t in thresholds], width, shift)
    bits = yield from top_bit(partial(and_parts, p), u, v)
    cuts = [slice(n * words, (n + 1) * words) for n in range(count)]
    return [Bool(map_parts(lambda planes, c=cut: planes[:, c], bits), x.shape) for cut in cuts]


def _sum_bits(p: ReplicatedBase, x: Arith, width: int, low: int) -> Steps[Parts]:
    """Shares bits [low, low + width) of u, which the adder knows. 1 round, w bits from the adder.

    Low bits are rounded up in u and down in v: the sum is the quotient or one more, as in
    `truncate`.
    """
    i, j = p.held
    planes = None
    if p.rank == p.adder:
        planes = bit_planes(-(-(x.parts[i] + x.parts[j]) >> low), width)
    spec = Spec((width, num_words(x.numel)), torch.int64)
    return (yield from share_parts(p, planes, p.adder, spec, bits=True))


def _part_bits(
    p: ReplicatedBase, x: Arith, thresholds: Sequence[int], width: int, low: int = 0
) -> Parts:
    """Bits of v - t for each t, side by side, as part a of a sharing. No message."""
    if p.rank == p.adder:
        columns = num_words(x.numel) * len(thresholds)
        zero = torch.zeros(width, columns, dtype=torch.int64, device=p.device)
        return dict.fromkeys(p.held, zero)
    rest = [x.parts[p.adder] - p.ring.wrap(t) for t in thresholds]
    planes = torch.cat([bit_planes(v, width, low) for v in rest], 1)
    zero = torch.zeros_like(planes)
    return {i: planes if i == p.adder else zero for i in p.held}


def is_zero(p: ReplicatedBase, x: Arith) -> Steps[Bool]:
    """Returns [x = 0], that is, [u = -v]: the AND of w bits. 1 + ceil(log2 w) rounds."""
    x = yield from p.settled.steps(x)
    width = max(x.width, 2)
    u = yield from _sum_bits(p, x, width, 0)
    v = _part_bits(p, x.map(torch.neg), [0], width)
    same = p.bit_not(Bool(map_parts(torch.bitwise_xor, u, v), x.shape))
    return same.with_parts((yield from all_planes(partial(and_parts, p), same.parts)))
