"""The largest of many secrets, its index, and the bits that mark it.

A tournament along one dimension, which is moved to the front first. Neighbours are compared, and
the earlier wins a tie, so that the first of several largest elements wins. With radix 2 a level
costs r + 1 rounds and n / 2 comparisons. With radix k it costs r + 2 rounds, r + 3 for k > 8, and
(k - 1) n / 2 comparisons, and leaves n / k elements. |x| < 2^(k-2), so that differences do not
wrap. A pending division is made in parallel with the first comparison, where that is local; if two
quotients are less than a unit apart, either may win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import ConfigError
from ..core import ProtocolCore
from ..share import Arith, Bool, join, join_bits
from ..steps import Steps, together
from .piecewise import quotient_limit
from .tournament_plan import RADICES, fan_ins, planned_radices

# The most bits that one AND joins while winners are followed down a tree.
FAN_IN = 4


@dataclass
class Level:
    """One level of a tournament: `size` elements in groups of `radix`, neighbours together.

    winners: whether the element at a place of a group won, for each place but the last, and each
    group.
    """

    size: int
    radix: int
    winners: Bool

    def wins(self, p: ProtocolCore) -> Bool:
        """Returns, for each element, whether it won its group."""
        last = p.bit_not(self.winners.map(lambda bits: bits.sum(1, dtype=bits.dtype) & 1))
        groups = last.shape[0]
        alone = [_ones(p, (1, *last.shape[1:]))] if self.size > groups * self.radix else []

        def by_element(values: list[Tensor]) -> Tensor:
            winners, last, *alone = values
            mixed = torch.cat([winners, last.unsqueeze(1)], 1).transpose(1, 2).flatten(1, 2)
            return torch.cat([mixed, *alone], 1)[:, : self.size]

        return join_bits(by_element, [self.winners, last, *alone])


@dataclass
class Tournament:
    """The elements that are left, as columns of shape (n, ...), and the levels so far.

    The first column is compared; the others move with it. low: how many of its low bits need not be
    compared.
    """

    columns: list[Arith]
    levels: list[Level]
    low: int = 0

    @property
    def size(self) -> int:
        """The number of elements that are left."""
        return self.columns[0].shape[0]


def max_(
    p: ProtocolCore,
    x: Arith,
    dim: int = -1,
    *,
    keepdim: bool = False,
    radix: int | None = 2,
    low: int = 0,
) -> Steps[Arith]:
    """Returns the largest element along `dim`.

    ceil(log2 n) (r + 1) rounds with radix 2, ceil(log4 n) (r + 2) with radix 4. Without a radix,
    each level has the best one for its size (tournament_plan.py). `low` > 0 need not compare as
    many low bits: the result is an element, less than the largest by up to 2^(low+1) a level.
    """
    field = yield from _tournament(p, [_front(x, dim)], radix, low)
    return _finish(field.columns[0], x, dim, keepdim)


def min_(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int | None = 2
) -> Steps[Arith]:
    """Returns the smallest element along `dim`. Costs what `max` costs."""
    return p.neg((yield from max_(p, p.neg(x), dim, keepdim=keepdim, radix=radix)))


def max_with_index(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int | None = 2
) -> Steps[tuple[Arith, Arith]]:
    """Returns the largest element along `dim` and its index, the first of equals. As `max`."""
    values = _front(x, dim)
    field = yield from _tournament(p, [values, indices(p, values)], radix)
    value, place = (_finish(column, x, dim, keepdim) for column in field.columns)
    return value, place


def argmax(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int | None = 2
) -> Steps[Arith]:
    """Returns the index of the largest element along `dim`, the first of equals. As `max`."""
    _, index = yield from max_with_index(p, x, dim, keepdim=keepdim, radix=radix)
    return index


def max_with_one_hot(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int | None = 2
) -> Steps[tuple[Arith, Bool]]:
    """Returns the largest element along `dim`, and bits of the shape of x that are 1 at it.

    Exactly one bit along `dim` is 1. Rounds: as `max`, and about one for every three levels. The
    gradient of `max` needs the bits.
    """
    largest, field = yield from max_with_tournament(p, x, dim, keepdim=keepdim, radix=radix)
    return largest, (yield from tournament_winners(p, field, dim))


def max_with_tournament(
    p: ProtocolCore, x: Arith, dim: int = -1, *, keepdim: bool = False, radix: int | None = 2
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


def one_hot_argmax(
    p: ProtocolCore, x: Arith, dim: int = -1, *, radix: int | None = 2
) -> Steps[Bool]:
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


def _tournament(
    p: ProtocolCore, columns: Sequence[Arith], radix: int | None, low: int = 0
) -> Steps[Tournament]:
    """Returns the tournament with one element left."""
    limit = quotient_limit(columns[0])
    field = Tournament(list(columns), [], low)
    if field.size == 1:
        field.columns[0] = yield from p.settled.steps(columns[0])
    for one in _radices(p, field, limit, radix):
        yield from _group(p, field, one) if one > 2 else _two(p, field)
        field.columns[0] = field.columns[0].promise(limit)
    return field


def _radices(p: ProtocolCore, field: Tournament, limit: int, radix: int | None) -> Sequence[int]:
    """Returns the radix of each level."""
    size, of_all = field.size, field.columns[0].numel
    if radix is None:
        return planned_radices(
            type(p),
            p.ring.bits,
            p.parties,
            size=size,
            count=of_all // size,
            width=min(max(2 * limit >> field.low, 1).bit_length() + 1, p.ring.bits),
            columns=len(field.columns),
        )
    if radix not in RADICES:
        raise ConfigError(f"radix={radix}", limit=f"allowed are {', '.join(map(str, RADICES))}")
    found = []
    while size > 1:
        found.append(2 if size == 2 else radix)
        size = -(-size // found[-1])
    return found


def _two(p: ProtocolCore, field: Tournament) -> Steps[None]:
    """A level of pairs: b + [a >= b] (a - b). An odd last element goes up. r + 1 rounds."""
    size = field.size
    even = size // 2 * 2
    values = field.columns[0]
    difference = p.sub(values[0:even:2], values[1:even:2])
    lost, field.columns[0] = yield from together(
        p.sign.steps(difference, low=field.low), p.settled.steps(values)
    )
    won = p.bit_not(lost)
    chosen = yield from together(
        *(p.inject.steps(won, p.sub(c[0:even:2], c[1:even:2])) for c in field.columns)
    )
    for i, (column, one) in enumerate(zip(field.columns, chosen, strict=True)):
        winners = p.add(column[1:even:2], one).promise(column.limit)
        left = [column[-1:]] if even < size else []
        field.columns[i] = join(torch.cat, [winners, *left])
    field.levels.append(Level(size, 2, won.reshape(1, *won.shape)))


def _group(p: ProtocolCore, field: Tournament, radix: int) -> Steps[None]:
    """A level of groups of `radix`: all comparisons, an AND of a row of them, r + 2 or 3 rounds.

    A winner is at least each later and greater than each earlier element. If the last group is not
    full, the last element is repeated; copies lose against it.
    """
    size, groups = field.size, -(-field.size // radix)
    # By place in a group, and then by group.
    order = torch.arange(radix * groups).view(groups, radix).t().flatten().clamp_(max=size - 1)

    def by_place(column: Arith) -> Arith:
        return column.index_select(0, order).reshape(radix, groups, *column.shape[1:])

    values = by_place((yield from _ordered(p, field)))
    differences = [p.sub(values[i : i + 1], values[i + 1 :]) for i in range(radix - 1)]
    less, field.columns[0] = yield from together(
        p.sign.steps(join(torch.cat, differences)),
        p.settled.steps(field.columns[0]),
    )
    won = yield from _all(p, _beats(p, less, radix))
    injections, lasts = [], []
    for column in map(by_place, field.columns):
        injections.append(p.inject.steps(won, p.sub(column[:-1], column[-1:])))
        lasts.append(column[-1])
    chosen = yield from together(*injections)
    for i, column in enumerate(field.columns):
        field.columns[i] = p.add(lasts[i], chosen[i].sum(0)).promise(column.limit)
    field.levels.append(Level(size, radix, won))


def _ordered(p: ProtocolCore, field: Tournament) -> Steps[Arith]:
    """Returns numbers in the order of the elements, but for their low bits, with nothing pending.

    Signs of differences of pending quotients, each rounded by itself, could be those of no order:
    three close elements might each lose against another, and a much smaller one win.
    """
    values = field.columns[0].divided(field.low)
    if values.pending and (rounded := p.rounded_locally(values)) is not None:
        return rounded
    field.columns[0] = yield from p.settled.steps(field.columns[0])
    return field.columns[0]


def _beats(p: ProtocolCore, less: Bool, radix: int) -> list[Bool]:
    """Returns, for each other element, whether the ones at all places but the last beat it.

    less: [a < b] for all pairs of places, a before b.
    """
    index = _beat_index(radix)

    def by_place(values: list[Tensor]) -> Tensor:
        both = torch.cat(values, 1)
        taken = both.index_select(1, index.to(both.device))
        return taken.reshape(radix - 1, radix - 1, *both.shape[2:])

    beats = join_bits(by_place, [less, p.bit_not(less)])
    return [beats.planes(i, i + 1) for i in range(radix - 1)]


@cache
@_disable_current_modes()  # parties that are threads share it: no plan may write it
def _beat_index(radix: int) -> Tensor:
    """For each other element and each place: where its bit is in [a < b] and then not [a < b]."""
    number = {pair: i for i, pair in enumerate(combinations(range(radix), 2))}
    places = range(radix - 1)
    return torch.tensor(
        [
            number[i, place] if i < place else len(number) + number[place, i + 1]
            for i in places  # the other element is at i, or at i + 1 from the place on
            for place in places
        ]
    )


def _all(p: ProtocolCore, bits: list[Bool]) -> Steps[Bool]:
    """Returns the AND of all: 1 round for up to 7 of them, 2 for more."""
    for fan_in in fan_ins(len(bits)):
        groups = [bits[i : i + fan_in] for i in range(0, len(bits), fan_in)]
        joined = yield from together(*(_and(p, group) for group in groups))
        bits = list(joined)
    return bits[0]


def _and(p: ProtocolCore, bits: Sequence[Bool]) -> Steps[Bool]:
    return (yield from p.bit_and.steps(*bits)) if len(bits) > 1 else bits[0]


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


def _take(bits: Bool, index: Tensor) -> Bool:
    """Returns bits[index], for a public vector of indices."""
    return bits.map(lambda values: values.index_select(1, index.to(values.device)))
