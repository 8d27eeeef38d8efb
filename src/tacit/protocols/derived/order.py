"""The largest of many secrets, its index, and the bits that mark it.

A tournament along one dimension, which is moved to the front first. Neighbours are compared, and
the earlier wins a tie, so that the first of several largest elements wins. With radix 2 a level
costs r + 1 rounds and n / 2 comparisons; with radix 4 it costs r + 2 rounds and 1.5 n comparisons
and leaves a quarter of the elements. |x| < 2^(k-2), so that differences do not wrap. A pending
division is made in parallel with the first comparison; if two quotients are less than a unit apart,
either may win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import prod

import torch
from torch import Tensor

from ...errors import ConfigError
from ...kernels import pack_bits, unpack_bits
from ..core import ProtocolCore
from ..share import Arith, Bool, join, join_bits, stack_planes
from ..steps import Steps, together
from .piecewise import quotient_limit

# The most bits that one AND joins while winners are followed down a tree.
FAN_IN = 4
PAIRS = tuple(combinations(range(4), 2))


@dataclass
class Level:
    """One level of a tournament: `size` elements in groups of `radix`, neighbours together.

    winners: for each place in a group but the last, whether the element there won, by group.
    """

    size: int
    radix: int
    winners: list[Bool]

    def wins(self, p: ProtocolCore) -> Bool:
        """Returns, for each element, whether it won its group."""
        last = p.bit_not(reduce(p.bit_xor, self.winners))
        groups = last.shape[0]
        tail = _ones(p, (1, *last.shape[1:])) if self.size > groups * self.radix else None
        return _interleaved([*self.winners, last], tail)[: self.size]


@dataclass
class Tournament:
    """The elements that are left, as columns of shape (n, ...), and the levels so far.

    The first column is compared; the others move with it.
    """

    columns: list[Arith]
    levels: list[Level]

    @property
    def size(self) -> int:
        """The number of elements that are left."""
        return self.columns[0].shape[0]


def max_(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int = 2
) -> Steps[Arith]:
    """Returns the largest element along `dim`.

    ceil(log2 n) (r + 1) rounds with radix 2, ceil(log4 n) (r + 2) with radix 4.
    """
    field = yield from _tournament(p, [_front(x, dim)], radix)
    return _finish(field.columns[0], x, dim, keepdim)


def min_(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int = 2
) -> Steps[Arith]:
    """Returns the smallest element along `dim`. Costs what `max` costs."""
    return p.neg((yield from max_(p, p.neg(x), dim, keepdim=keepdim, radix=radix)))


def max_with_index(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int = 2
) -> Steps[tuple[Arith, Arith]]:
    """Returns the largest element along `dim` and its index, the first of equals. As `max`."""
    values = _front(x, dim)
    field = yield from _tournament(p, [values, indices(p, values)], radix)
    value, place = (_finish(column, x, dim, keepdim) for column in field.columns)
    return value, place


def argmax(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int = 2
) -> Steps[Arith]:
    """Returns the index of the largest element along `dim`, the first of equals. As `max`."""
    _, index = yield from max_with_index(p, x, dim, keepdim=keepdim, radix=radix)
    return index


def max_with_one_hot(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int = 2
) -> Steps[tuple[Arith, Bool]]:
    """Returns the largest element along `dim`, and bits of the shape of x that are 1 at it.

    Exactly one bit along `dim` is 1. Rounds: as `max`, and about one for every three levels. The
    gradient of `max` needs the bits.
    """
    largest, field = yield from max_with_tournament(p, x, dim, keepdim=keepdim, radix=radix)
    return largest, (yield from tournament_winners(p, field, dim))


def max_with_tournament(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int = 2
) -> Steps[tuple[Arith, Tournament]]:
    """Returns the largest element along `dim`, and the tournament. Rounds as `max`."""
    field = yield from _tournament(p, [_front(x, dim)], radix)
    return _finish(field.columns[0], x, dim, keepdim), field


def tournament_winners(p: ProtocolCore, field: Tournament, dim: int = -1) -> Steps[Bool]:
    """Returns the bits of `max_with_one_hot`: about one round for three levels."""
    marks = yield from _marks(p, field)
    back = list(range(1, len(marks.shape)))
    back.insert(dim % len(marks.shape), 0)
    return marks.permute(*back)


def one_hot_argmax(p: ProtocolCore, x: Arith, dim: int = -1, *, radix: int = 2) -> Steps[Bool]:
    """Returns bits of the shape of x: 1 at the first largest element along `dim`, else 0."""
    _, marks = yield from max_with_one_hot(p, x, dim, radix=radix)
    return marks


def indices(p: ProtocolCore, values: Arith) -> Arith:
    """Returns 0, 1, 2, ... along the first dimension, as a share of the shape of `values`."""
    index = torch.arange(values.shape[0], dtype=p.ring.dtype)
    index = index.view(-1, *[1] * (len(values.shape) - 1))
    return p.public(index.expand(values.shape).contiguous())


def _front(x: Arith, dim: int) -> Arith:
    """x with `dim` in front."""
    dims = len(x.shape)
    if not -dims <= dim < dims or not x.shape[dim]:
        raise ConfigError(
            f"dim={dim}", limit=f"a shape of {tuple(x.shape)} has nothing to compare there"
        )
    return x.permute(dim % dims, *(i for i in range(dims) if i != dim % dims))


def _finish(winner: Arith, x: Arith, dim: int, keepdim: bool) -> Arith:
    return winner[0].unsqueeze(dim % len(x.shape)) if keepdim else winner[0]


def _tournament(p: ProtocolCore, columns: Sequence[Arith], radix: int) -> Steps[Tournament]:
    """Returns the tournament with one element left."""
    if radix not in (2, 4):
        raise ConfigError(f"radix={radix}", limit="allowed are 2 and 4")
    limit = quotient_limit(columns[0])
    field = Tournament(list(columns), [])
    if field.size == 1:
        field.columns[0] = yield from p.settled.steps(columns[0])
    while field.size > 1:
        yield from _four(p, field) if radix == 4 and field.size > 2 else _two(p, field)
        field.columns[0] = field.columns[0].promise(limit)
    return field


def _two(p: ProtocolCore, field: Tournament) -> Steps[None]:
    """A level of pairs: b + [a >= b] (a - b). An odd last element goes up. r + 1 rounds."""
    size = field.size
    even = size // 2 * 2
    values = field.columns[0]
    difference = p.sub(values[0:even:2], values[1:even:2])
    lost, field.columns[0] = yield from together(p.sign.steps(difference), p.settled.steps(values))
    won = p.bit_not(lost)
    chosen = yield from together(
        *(p.inject.steps(won, p.sub(c[0:even:2], c[1:even:2])) for c in field.columns)
    )
    for i, (column, one) in enumerate(zip(field.columns, chosen, strict=True)):
        winners = p.add(column[1:even:2], one).promise(column.limit)
        left = [column[-1:]] if even < size else []
        field.columns[i] = join(torch.cat, [winners, *left])
    field.levels.append(Level(size, 2, [won]))


def _four(p: ProtocolCore, field: Tournament) -> Steps[None]:
    """A level of groups of four: all six comparisons, an AND of three bits, r + 2 rounds.

    A winner is at least each later and greater than each earlier element. If the last group has
    fewer than four elements, the last one is repeated; copies lose against it.
    """
    size, groups = field.size, -(-field.size // 4)
    positions = [torch.arange(i, 4 * groups, 4).clamp_(max=size - 1) for i in range(4)]
    placed = [field.columns[0].index_select(0, position) for position in positions]
    differences = join(torch.stack, [p.sub(placed[i], placed[j]) for i, j in PAIRS])
    bits, field.columns[0] = yield from together(
        p.sign.steps(differences), p.settled.steps(field.columns[0])
    )
    less = dict(zip(PAIRS, _rows_of(bits), strict=True))
    beats = [
        [p.bit_not(less[i, j]) if i < j else less[j, i] for j in range(4) if j != i]
        for i in range(3)
    ]
    first = yield from p.bit_and.steps(*map(stack_planes, zip(*beats, strict=True)))
    won = [first.planes(i, i + 1) for i in range(3)]
    injections = []
    for column in field.columns:
        *others, last = (column.index_select(0, position) for position in positions)
        injections += [p.inject.steps(b, p.sub(a, last)) for b, a in zip(won, others, strict=True)]
    chosen = yield from together(*injections)
    for i, column in enumerate(field.columns):
        winners = column.index_select(0, positions[3])
        for one in chosen[3 * i : 3 * i + 3]:
            winners = p.add(winners, one)
        field.columns[i] = winners.promise(column.limit)
    field.levels.append(Level(size, 4, won))


def _marks(p: ProtocolCore, field: Tournament) -> Steps[Bool]:
    """Returns, for each element of the first level, whether it won every time.

    Bits are joined from the last level down: one round for the last FAN_IN levels, then one for
    each FAN_IN - 1.
    """
    levels = field.levels[::-1]
    marks: list[Bool] = []
    while levels:
        count = FAN_IN - len(marks)
        for level in levels[:count]:
            parents = torch.arange(level.size) // level.radix
            marks = [*(_take(mark, parents) for mark in marks), level.wins(p)]
        levels = levels[count:]
        if len(marks) > 1:
            marks = [(yield from p.bit_and.steps(*marks))]
    return marks[0] if marks else _ones(p, field.columns[0].shape)


# Bits along the first dimension: local -----------------------------------------------------------


def _ones(p: ProtocolCore, shape: Sequence[int]) -> Bool:
    """Returns public ones as a share."""
    return p.pack(torch.ones(tuple(shape), dtype=torch.bool))


def _rows_of(bits: Bool) -> list[Bool]:
    """Returns bits[0], bits[1], ..., for one bit an element."""
    rows = {k: _split_rows(part[0], bits.shape) for k, part in bits.parts.items()}
    shape = bits.shape[1:]
    return [Bool({k: rows[k][i] for k in rows}, shape) for i in range(bits.shape[0])]


def _split_rows(words: Tensor, shape: Sequence[int]) -> list[Tensor]:
    """The planes of each row; views if rows end with a word."""
    count, size = shape[0], prod(shape[1:])
    if size % 64 == 0:
        return list(words.view(count, 1, size // 64))
    return [pack_bits(row).unsqueeze(0) for row in unpack_bits(words, shape, torch.uint8)]


def _take(bits: Bool, index: Tensor) -> Bool:
    """Returns bits[index], for a public vector of indices."""
    return bits.map(lambda values: values.index_select(1, index.to(values.device)))


def _interleaved(columns: Sequence[Bool], tail: Bool | None = None) -> Bool:
    """Returns element 0 of each column, then element 1 of each, and so on; then `tail`."""

    def change(values: list[Tensor]) -> Tensor:
        mixed = torch.stack(values[: len(columns)], 2).flatten(1, 2)
        return torch.cat([mixed, *values[len(columns) :]], 1)

    return join_bits(change, [*columns, tail] if tail is not None else columns)
