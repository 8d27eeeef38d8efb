"""Sorting networks against all inputs of zeros and ones, and secrets against plain torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tacit.errors import PartyFailed
from tacit.protocols.derived.sorting import network

from .plaintexts import EVERYWHERE, RINGS, close, evaluate, integers

LIMIT = 1000


@pytest.mark.parametrize("n", range(10))
def test_the_network_sorts(n):
    """What sorts all vectors of zeros and ones sorts everything."""
    vectors = (torch.arange(1 << n).unsqueeze(1) >> torch.arange(n)) & 1
    for k in range(1, n + 1):
        rows = vectors.clone()
        for layer in network(n, k):
            places = [place for pair in layer for place in pair]
            assert len(set(places)) == len(places)
            for i, j in layer:
                low, high = rows[:, i].minimum(rows[:, j]), rows[:, i].maximum(rows[:, j])
                rows[:, i], rows[:, j] = low, high
        assert torch.equal(rows[:, :k], vectors.sort(1).values[:, :k])


def test_the_network_is_batchers():
    assert [len(network(1 << t)) for t in range(7)] == [t * (t + 1) // 2 for t in range(7)]
    assert sum(map(len, network(16))) == 63
    assert [len(network(1 << t, 1)) for t in range(7)] == list(range(7))
    assert sum(map(len, network(37, 1))) == 36


def ordered(p: Any, x: Any, dim: int, k: int) -> list[Any]:
    return [
        p.sort(x, dim),
        p.sort(x, dim, descending=True),
        *p.sort_with_index(x, dim),
        *p.topk(x, k, dim),
        *p.topk(x, k, dim, largest=False),
    ]


def check_ordered(found: list[Tensor], x: Tensor, dim: int, k: int) -> None:
    found = [result.long() for result in found]
    ascending, descending = (x.sort(dim, descending=d).values for d in (False, True))
    assert torch.equal(found[0], ascending)
    assert torch.equal(found[1], descending)
    assert torch.equal(found[2], ascending)
    assert torch.equal(found[3].sort(dim).values, torch.ones_like(x).cumsum(dim) - 1)
    assert torch.equal(found[4], descending.narrow(dim, 0, k))
    assert torch.equal(found[6], ascending.narrow(dim, 0, k))
    for values, index in (found[2:4], found[4:6], found[6:8]):
        assert torch.equal(x.gather(dim, index), values)


@EVERYWHERE
@RINGS
def test_sorting(protocol, by, ring):
    limit = (1 << (ring - 2)) - 1
    x = integers((3, 7, 2), limit, 1)

    def program(p: Any, x: Any) -> list[Any]:
        with p.parallel():
            return ordered(p, x, 1, 3)

    found, _ = evaluate(program, x, protocol=protocol, by=by, ring=ring, limit=limit)
    check_ordered(found, x, 1, 3)


def test_sizes_and_ties():
    values = [integers((n, 3), 2, n) for n in (1, 2, 3, 8, 13)]

    def program(p: Any, *shares: Any) -> list[Any]:
        with p.parallel():
            return [result for x in shares for result in ordered(p, x, 0, 1)]

    found, _ = evaluate(program, *values, limit=2)
    for i, x in enumerate(values):
        check_ordered(found[8 * i : 8 * i + 8], x, 0, 1)


@EVERYWHERE
def test_pending_divisions(protocol, by):
    x, y = integers((5, 6), LIMIT, 2), integers((5, 6), LIMIT, 3)

    def program(p: Any, x: Any, y: Any) -> list[Any]:
        return [p.sort(p.mul(x, y, shift=6)), p.sort(p.mul(x, y, shift=6)[:, :1])]

    found, _ = evaluate(program, x, y, protocol=protocol, by=by, limit=LIMIT)
    quotients = (x * y).double() / 64
    close(found[0], quotients.sort().values, 1)
    assert (found[0].diff() >= 0).all()
    close(found[1], quotients[:, :1], 1)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_rounds(n):
    """Each layer of the network compares few elements, in two rounds, and exchanges them."""
    x = integers((n,), 1 << 20)
    assert evaluate(lambda p, x: p.sort(x), x, limit=1 << 20)[1] == len(network(n)) * 3
    assert evaluate(lambda p, x: p.topk(x, 1), x, limit=1 << 20)[1] == len(network(n, 1)) * 3


@pytest.mark.parametrize("k", [0, 4])
def test_what_is_refused(k):
    with pytest.raises(PartyFailed, match=f"k={k}"):
        evaluate(lambda p, x: p.topk(x, k), torch.arange(3))
