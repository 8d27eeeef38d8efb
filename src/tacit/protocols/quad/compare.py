"""Signs and equality of secrets, by leaf tables and carry nodes as in `masked/compare.py`.

The sign of x = m + a is bit w-1 of u + v, where u = m mod 2^w is known to the value side and
v = a mod 2^w to the mask side. Each side deals one-hot tables of its digits, and looks up its
digits in the shares of the other's; carries are symmetric in u and v.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import ConfigError
from ...kernels import (
    bit_planes,
    leaf_matches,
    leaf_tables,
    node_carries,
    node_products,
    num_products,
    sign_leaves,
    sign_planes,
    sign_tables,
)
from ...ring import num_words
from ..masked.carry_plan import groups_after, sign_plan
from ..masked.compare import groups_of_four, next_rows
from ..masked.deal import plane_spec
from ..share import Arith, Bool, Parts
from ..steps import Steps
from .base import QuadBase
from .boolean import Nodes, and_gate, known_planes
from .gate import Gate, evaluate


def sign(p: QuadBase, x: Arith, *, low: int = 0) -> Steps[Bool]:
    """Returns [x < 0]. 2 rounds for windows up to 20 bits, 3 above; a pending division is free.

    `low` > 0 ignores as many low bits: x in [-2^low, 0) may be taken for positive.
    """
    [bit] = yield from signs(p, x, (0,), low=low)
    return bit


def signs_bytes(x: Arith, thresholds: Sequence[int], low: int = 0) -> int:
    """Returns the bytes that `signs` takes for an element."""
    return 160 + 160 * len(thresholds)


def signs(p: QuadBase, x: Arith, thresholds: Sequence[int], *, low: int = 0) -> Steps[list[Bool]]:
    """Returns [x < t] for each public t, in the rounds of one."""
    if not thresholds:
        return []
    comparison = SignComparison(p, x, thresholds, low)
    rows = yield from evaluate(p, comparison.leaves())
    for nodes in comparison.plan.levels:
        made = yield from evaluate(p, _nodes(p, rows, nodes))
        groups = (len(rows[p.own]) + 1) // 2
        if groups > sum(nodes):  # one group goes up as it is
            made = {i: next_rows(part, rows[i], nodes) for i, part in made.items()}
        rows = made
    return comparison.bits(rows)


class SignComparison:
    """[x < t] for each public t; NOTE [sign of a quotient] of `masked/compare.py` holds here, too.

    u = floor(m / 2^shift) - t and v = -floor(-a / 2^shift). planes: of u or v, by threshold.
    """

    def __init__(self, p: QuadBase, x: Arith, thresholds: Sequence[int], low: int) -> None:
        self.p, self.shape, self.thresholds = p, x.shape, thresholds
        shift, farthest = x.pending + low, max(map(abs, thresholds))
        reach = (x.limit >> x.pending) + (x.pending > 0) + farthest  # |x / 2^pending - t| <= reach
        reach = (reach >> low) + (low > 0)  # low bits are dropped by rounding up or down
        width = min(max(reach.bit_length() + 1, 2), p.ring.bits - shift)
        if width < 2:
            raise ConfigError(f"low={low}: nothing is left of the {x.width} bits of x")
        self.plan = sign_plan(width, num_words(x.numel), len(thresholds))
        known, digits = p.known(x), self.plan.digits
        if p.on_mask_side:
            self.planes = [sign_planes(known, digits, shift=shift, up=True)] * len(thresholds)
        else:
            self.planes = [
                sign_planes((known >> x.pending) - t, digits, shift=low)
                if t
                else sign_planes(known, digits, shift=shift)
                for t in thresholds
            ]

    def leaves(self) -> Gate:
        """Generate and propagate of every digit, the comparisons side by side."""
        digits, words, count = self.plan.digits, num_words(self.shape.numel()), len(self.thresholds)
        rows, height = self.plan.table_rows + 1, 2 * len(self.plan.digits) - 1  # and the top bit
        tables = plane_spec(rows, words), plane_spec(rows, words * count)
        planes, first, on_mask_side = self.planes, self.p.is_first, self.p.on_mask_side

        def deal(pads: list[Tensor]) -> list[Tensor]:
            """One table of v serves all comparisons (M9); u differs."""
            pieces = _pieces(pads[0], 1 if on_mask_side else count)
            pairs = zip(planes[: len(pieces)], pieces, strict=True)
            return [_joined([sign_tables(u, digits, pad) for u, pad in pairs])]

        def share(dealt: list[Tensor], mask: Tensor) -> Tensor:
            theirs = _pieces(dealt[0], count) if on_mask_side else [dealt[0]] * count
            operands = zip(planes, theirs, _pieces(mask, count), strict=True)
            return _joined(
                [sign_leaves(u, table, digits, own, first=first) for u, table, own in operands]
            )

        out = plane_spec(height, words * count)
        return Gate(out, tables[:1], tables[1:], deal, share)

    def bits(self, rows: Parts) -> list[Bool]:
        """The results by threshold, from those side by side."""
        count = len(self.thresholds)
        pieces = {i: part.tensor_split(count, 1) for i, part in rows.items()}
        return [Bool({i: pieces[i][n] for i in pieces}, self.shape) for n in range(count)]


def _pieces(planes: Tensor, count: int) -> list[Tensor]:
    """The planes of so many comparisons that are side by side."""
    return [piece.contiguous() for piece in planes.tensor_split(count, 1)]


def _joined(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, 1)


def _nodes(p: QuadBase, rows: Parts, nodes: Nodes) -> Gate:
    """The carry nodes of one level over the rows (G..., P...)."""
    known, own = known_planes(p, rows), rows[p.own]
    words = known.shape[1]
    dealt = (plane_spec(num_products(nodes), words),)

    def deal(pads: list[Tensor]) -> list[Tensor]:
        return [node_products(known, nodes, pads[0], out=pads[0])]

    def share(products: list[Tensor], mask: Tensor) -> Tensor:
        return node_carries(known, own, products[0], nodes, mask, first=p.is_first)

    return Gate(plane_spec(2 * len(nodes) - 1, words), dealt, dealt, deal, share)


def is_zero(p: QuadBase, x: Arith) -> Steps[Bool]:
    """Returns [x = 0], that is, [m = -a]. 64 bits: 3 rounds.

    Every digit of four bits is looked up in the one-hot table of the other side's; the matches are
    joined by AND gates of four inputs.
    """
    x = yield from p.settled.steps(x)
    width = max(x.width, 2)
    digits = groups_of_four(width)
    rows = yield from evaluate(p, _matches(p, x, width, digits))
    while (count := len(rows[p.own])) > 1:
        nodes = tuple(size for size in groups_of_four(count) if size > 1)
        taken = sum(nodes)  # the groups above these go up as they are
        lower = {i: part[:taken].contiguous() for i, part in rows.items()}
        made = yield from evaluate(p, and_gate(p, known_planes(p, lower), lower[p.own], nodes))
        rows = {i: torch.cat([part, rows[i][taken:]]) for i, part in made.items()}
        assert len(rows[p.own]) == groups_after(count, nodes)
    return Bool(rows, x.shape)


def _matches(p: QuadBase, x: Arith, width: int, digits: Nodes) -> Gate:
    """Whether each digit of m equals that of -a. A table of digits D is that of V = ones - D."""
    words = num_words(x.numel)
    known = p.known(x).contiguous()
    own = bit_planes(-known if p.on_mask_side else known, width)
    table = (plane_spec(sum((1 << digit) - 1 for digit in digits), words),)

    def deal(pads: list[Tensor]) -> list[Tensor]:
        return [leaf_tables(~own, digits, pads[0])]

    def share(tables: list[Tensor], mask: Tensor) -> Tensor:
        return leaf_matches(own, tables[0], digits, mask, first=p.is_first)

    return Gate(plane_spec(len(digits), words), table, table, deal, share)
