"""Sorting networks: which pairs are compared is public, the results are secret.

Batcher's merge exchange (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M) for any n:
t (t + 1) / 2 layers for t = ceil(log2 n), about n t^2 / 4 exchanges. A layer is one comparison of
all its pairs and one injection: r + 1 rounds. A pending division is made before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import ConfigError
from ..core import ProtocolCore
from ..share import Arith, join
from ..steps import Steps, together
from .order import indices

MOST_KEPT = 8192  # elements; indices of all layers take 12 MB then

Layer = np.ndarray  # the two places of each pair


class Places(NamedTuple):
    """The rows that a layer compares, the others, and what puts all of them back in place."""

    first: Tensor
    second: Tensor
    others: Tensor
    order: Tensor


def sort(p: ProtocolCore, x: Arith, dim: int = -1, *, descending: bool = False) -> Steps[Arith]:
    """Returns x in order along `dim`. t (t + 1) / 2 layers of r + 1 rounds; |x| < 2^(k-2)."""
    columns = yield from _sorted(p, [_front(x, dim)], descending, x.shape[dim])
    return _back(columns[0], dim)


def sort_with_index(
    p: ProtocolCore, x: Arith, dim: int = -1, *, descending: bool = False
) -> Steps[tuple[Arith, Arith]]:
    """Returns x in order along `dim`, and the index of each element; equals in any order."""
    return (yield from _indexed(p, x, dim, descending, x.shape[dim]))


def topk(
    p: ProtocolCore, x: Arith, k: int, dim: int = -1, *, largest: bool = True
) -> Steps[tuple[Arith, Arith]]:
    """Returns the k largest (or smallest) elements along `dim` in order, and their indices.

    A sort without the exchanges that the first k places do not need: ceil(log2 n) layers for k = 1.
    """
    if not 0 < k <= x.shape[dim]:
        raise ConfigError(f"k={k}", limit=f"there are {x.shape[dim]} elements along dim={dim}")
    return (yield from _indexed(p, x, dim, largest, k))


def sort_by(
    p: ProtocolCore, key: Arith, x: Arith, dim: int = -1, *, k: int, descending: bool = False
) -> Steps[tuple[Arith, Arith]]:
    """Returns the first k keys in order along `dim`, and the elements of x beside them."""
    columns = [_front(key, dim), _front(x, dim)]
    ordered, moved = yield from _sorted(p, columns, descending, k)
    return _back(ordered, dim), _back(moved, dim)


def network(n: int, k: int | None = None) -> list[Layer]:
    """Returns the pairs of each layer; after all of them the first k of n places are in order."""
    return _needed(list(_batcher(n)), n, n if k is None else k)


def _batcher(n: int) -> Iterator[Layer]:
    top = 1 << max((n - 1).bit_length() - 1, 0)
    step = top if n > 1 else 0
    while step:
        reach, offset, distance = top, 0, step
        while True:
            places = np.arange(n - distance)
            first = places[places & step == offset]
            yield np.stack([first, first + distance], 1)
            if reach == step:
                break
            distance, reach, offset = reach - step, reach // 2, step
        step //= 2


def _needed(layers: Sequence[Layer], n: int, k: int) -> list[Layer]:
    """The layers without the pairs whose places are not used later."""
    used, kept = np.arange(n) < k, []
    for layer in reversed(layers):
        pairs = layer[used[layer].any(1)]
        used[pairs] = True
        if len(pairs):
            kept.append(pairs)
    return kept[::-1]


def _indexed(
    p: ProtocolCore, x: Arith, dim: int, descending: bool, k: int
) -> Steps[tuple[Arith, Arith]]:
    values = _front(x, dim)
    columns = [values, indices(p, values)]
    ordered, index = yield from _sorted(p, columns, descending, k)
    return _back(ordered, dim), _back(index, dim)


def _sorted(p: ProtocolCore, columns: list[Arith], descending: bool, k: int) -> Steps[list[Arith]]:
    """Returns the first k rows of the columns in the order of the first column."""
    columns = [(yield from p.settled.steps(columns[0])), *columns[1:]]
    num_layers, layers = _places(columns[0].shape[0], k)
    for places in p.context.loops.counted(layers, "sorting", num_layers):
        columns = yield from _exchange(p, columns, places, descending)
    return [column[:k] for column in columns]


def _exchange(
    p: ProtocolCore, columns: Sequence[Arith], places: Places, descending: bool
) -> Steps[list[Arith]]:
    """Returns the columns after rows first[i] and second[i] were put in order. r + 1 rounds.

    With b = [the rows are out of order], d = b (second - first): first + d and second - d.
    """
    first, second, others, order = places
    pairs = [(c.index_select(0, first), c.index_select(0, second)) for c in columns]
    a, b = pairs[0]
    wrong = yield from p.sign.steps(p.sub(a, b) if descending else p.sub(b, a))
    moved = yield from together(*(p.inject.steps(wrong, p.sub(b, a)) for a, b in pairs))
    results = []
    for column, (a, b), d in zip(columns, pairs, moved, strict=True):
        rows = join(torch.cat, [p.add(a, d), p.sub(b, d), column.index_select(0, others)])
        results.append(rows.index_select(0, order).promise(column.limit))
    return results


def _places(n: int, k: int) -> tuple[int, Iterable[Places]]:
    """Returns the number of layers of a network, and their indices, kept unless they are long."""
    if n <= MOST_KEPT:
        kept = _kept_places(n, k)
        return len(kept), kept
    layers = network(n, k)
    return len(layers), (_made_places(layer, n) for layer in layers)


@lru_cache(maxsize=16)
@_disable_current_modes()  # parties that are threads share it: no plan may write it
def _kept_places(n: int, k: int) -> tuple[Places, ...]:
    return tuple(_made_places(layer, n) for layer in network(n, k))


def _made_places(layer: Layer, n: int) -> Places:
    first, second = torch.from_numpy(layer.T.copy())
    moved = torch.cat([first, second])
    free = torch.ones(n, dtype=torch.bool)
    free[moved] = False
    others = free.nonzero().squeeze(1)
    return Places(first, second, others, torch.cat([moved, others]).argsort())


def _front(x: Arith, dim: int) -> Arith:
    dims = len(x.shape)
    if not -dims <= dim < dims:
        raise ConfigError(f"dim={dim}", limit=f"a shape of {tuple(x.shape)} has no such dimension")
    return x.transpose(0, dim)


def _back(x: Arith, dim: int) -> Arith:
    return x.transpose(0, dim)
