"""Signs and equality of secrets, by an adder of the parties' parts.

The bits of part i are known to party i, so they are a sharing without a message. Carry-save steps
make two operands of n, and a tree of carries finds the top bit of their sum in a window of w bits
that holds x with its sign (bits above all equal the sign).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import ConfigError
from ...kernels import bit_planes
from ...ring import num_words
from ..bit_trees import (
    all_planes,
    and_tree_rows,
    carry_save,
    carry_save_rows,
    map_parts,
    top_bit,
    top_bit_rows,
)
from ..share import Arith, Bool, Parts
from ..steps import Steps
from .base import BeaverBase
from .boolean import and_gates
from .truncation import divided_part


def guard_bits(parties: int) -> int:
    """Returns how many bits below a unit of a quotient a comparison of it looks at.

    n parts, each divided alone, add up to less than n - 1 above the quotient. With g bits more that
    is at most a unit, as for two parties, if 2^g >= n - 1.
    """
    return (parties - 2).bit_length()


def sign(p: BeaverBase, x: Arith, *, low: int = 0) -> Steps[Bool]:
    """Returns [x < 0]: 1 + ceil(log2(w - 1)) rounds for two parties, carry-save steps before more.

    `low` > 0 ignores as many low bits: x in [-2^low, 0) may be taken for positive.
    """
    [bit] = yield from p.signs.steps(x, [0], low=low)
    return bit


def signs_bytes(x: Arith, thresholds: Sequence[int], low: int = 0) -> int:
    """Returns the bytes that `signs` takes for an element."""
    return 128 * len(thresholds)


def signs(p: BeaverBase, x: Arith, thresholds: Sequence[int], *, low: int = 0) -> Steps[list[Bool]]:
    """Returns [x < t] for each public t, in the rounds of one. The leader subtracts thresholds.

    NOTE [sign of a quotient]: a pending division by 2^t is made on each part alone. If that wraps,
    it is wrong by a multiple of 2^(k-t), which a window of w <= k-t bits does not see.
    """
    if not thresholds:
        return []
    shift = max(x.pending + low - guard_bits(p.parties), 0)
    reach = (x.limit >> x.pending) + bool(x.pending) + max(map(abs, thresholds))
    reach = (reach >> low) + bool(low)  # low bits are dropped by rounding up or down
    width = max(reach.bit_length() + 1, 2) + x.pending + low - shift
    width = min(width, p.ring.bits - shift)
    if width < 2:
        raise ConfigError(f"low={low}: nothing is left of the {x.width} bits of x")
    count, words = len(thresholds), num_words(x.numel)
    planes = _threshold_planes(p, x, thresholds, width, shift)
    rows = carry_save_rows(p.parties, width) + top_bit_rows(width)
    gates = yield from and_gates(p, rows, words * count)
    u, v = yield from carry_save(gates, operands(p, planes))
    bits = yield from top_bit(gates, u, v)
    cuts = [slice(n * words, (n + 1) * words) for n in range(count)]
    return [Bool(map_parts(lambda planes, c=cut: planes[:, c], bits), x.shape) for cut in cuts]


def _threshold_planes(
    p: BeaverBase, x: Arith, thresholds: Sequence[int], width: int, shift: int
) -> Tensor:
    """The bits of this party's part of x - t, divided, for each t, side by side."""
    own = p.own(x)
    if not p.is_leader:
        return bit_planes(divided_part(p, own, shift), width).repeat(1, len(thresholds))
    parts = [own - p.ring.wrap(t << x.pending) if t else own for t in thresholds]
    return torch.cat([bit_planes(part, width, shift) for part in parts], 1)


def operands(p: BeaverBase, planes: Tensor) -> list[Parts]:
    """Returns for each party the bits that it knows; the parts of all others are zero."""
    zero = torch.zeros_like(planes)
    return [{p.rank: planes if rank == p.rank else zero} for rank in p.ranks]


def is_zero(p: BeaverBase, x: Arith) -> Steps[Bool]:
    """Returns [x = 0]: the AND of w bits, after the carry-save steps. NOTE [zero without carries].

    u + v = 0 exactly if u ^ v = 2 (u | v): up to the lowest bit that is set in u or v both sides
    are zero, and above it a sum of zero carries into every place. Two parties need no gate for it:
    x_0 = -x_1 is a comparison of bits that each of them knows.
    """
    x = yield from p.settled.steps(x)
    width, words = max(x.width, 2), num_words(x.numel)
    gates = yield from and_gates(p, zero_rows(p.parties, width), words)
    if p.parties > 2:
        u, v = yield from carry_save(gates, operands(p, bit_planes(p.own(x), width)))
        either = yield from gates(map_parts(_but_top, u), map_parts(_but_top, v))
        differ = map_parts(_unequal, u, v, either)
    else:
        own = p.own(x)
        differ = {p.rank: bit_planes(own if p.is_leader else -own, width)}
    same = p.bit_not(Bool(differ, x.shape))
    return same.with_parts((yield from all_planes(gates, same.parts)))


def zero_rows(parties: int, width: int) -> list[int]:
    """Returns how many planes each round of `is_zero` has gates for."""
    either = [width - 1] if parties > 2 else []
    return [*carry_save_rows(parties, width), *either, *and_tree_rows(width)]


def _but_top(planes: Tensor) -> Tensor:
    return planes[:-1]


def _unequal(u: Tensor, v: Tensor, both: Tensor) -> Tensor:
    """u ^ v ^ 2 (u | v), from both = u & v of all planes but the top one."""
    differ = u ^ v
    differ[1:] ^= u[:-1] ^ v[:-1] ^ both
    return differ
