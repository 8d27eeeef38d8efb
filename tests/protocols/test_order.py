"""The largest of many secrets against plain torch: sizes, ties, dimensions, rounds."""

from __future__ import annotations

from itertools import product
from math import ceil, log2
from typing import Any

import pytest
import torch
from torch import Tensor

from tacit.errors import PartyFailed

from .plaintexts import EVERYWHERE, RINGS, close, evaluate, integers

LIMIT = 1000
DIMS = (0, 1, -1, -2)


def first_largest(x: Tensor, dim: int) -> Tensor:
    """The first index of the largest element, which torch does not promise."""
    is_largest = x == x.amax(dim, keepdim=True)
    return is_largest.to(torch.uint8).cumsum(dim).eq(0).sum(dim)


def marks(x: Tensor, dim: int) -> Tensor:
    index = first_largest(x, dim).unsqueeze(dim)
    return torch.zeros_like(x, dtype=torch.bool).scatter(dim, index, True)


def everything(p: Any, x: Any, dim: int, radix: int) -> list[Any]:
    with p.parallel():
        largest = p.max(x, dim, radix=radix)
        smallest = p.min(x, dim, radix=radix, keepdim=True)
        value, index = p.max_with_index(x, dim, radix=radix, keepdim=True)
        again, one_hot = p.max_with_one_hot(x, dim, radix=radix)
    return [largest, smallest, value, index, again, one_hot]


def check_everything(found: list[Tensor], x: Tensor, dim: int) -> None:
    largest = x.amax(dim)
    wanted = [
        largest,
        x.amin(dim, keepdim=True),
        largest.unsqueeze(dim),
        first_largest(x, dim).unsqueeze(dim),
        largest,
        marks(x, dim),
    ]
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a.long() if a.dtype == torch.int32 else a, b)


@EVERYWHERE
@RINGS
@pytest.mark.parametrize("radix", [2, 4, 16, None])
def test_extremes(protocol, by, ring, radix):
    limit = (1 << (ring - 2)) - 1
    x = integers((2, 9, 5), limit, radix or 1)

    def program(p: Any, x: Any) -> list[Any]:
        return everything(p, x, 1, radix)

    found, _ = evaluate(program, x, protocol=protocol, by=by, ring=ring, limit=limit)
    check_everything(found, x, 1)


@EVERYWHERE
@pytest.mark.parametrize("radix", [2, 4, None])
@pytest.mark.parametrize("pending", [0, 5])
def test_low_bits_that_need_not_be_compared(protocol, by, radix, pending):
    """The result is one of the elements, and each level misses the largest by 2^(low+1) at most."""
    x, low = integers((40, 6), 1 << 20, 3), 6
    x[20:] = x[:1] + torch.arange(20).unsqueeze(1) * 7  # close to each other

    def program(p: Any, x: Any) -> Any:
        x = x.scaled(1 << pending).divided(pending)
        return p.max(x, 0, radix=radix, low=low)

    [found], _ = evaluate(program, x, protocol=protocol, by=by, limit=1 << 21)
    levels = ceil(log2(len(x))) if radix != 4 else 3
    assert (x == found).any(0).all()
    assert (found > x.amax(0) - (levels << (low + 1))).all()


def test_numbers_that_are_known_to_be_zero():
    """Products with public zeros have a limit of 0."""
    x = torch.zeros(5, 2, dtype=torch.int64)
    found, _ = evaluate(lambda p, x: everything(p, x, 0, None), x, limit=0)
    check_everything(found, x, 0)


def test_every_size_with_ties():
    sizes = [(n, radix) for n in (1, 2, 3, 4, 7, 17) for radix in (2, 4, 5, 16, None)]
    values = [integers((n, 6), 2, n) for n, _ in sizes]

    def program(p: Any, *shares: Any) -> list[Any]:
        pairs = zip(shares, sizes, strict=True)
        return [result for x, (_, radix) in pairs for result in everything(p, x, 0, radix)]

    found, _ = evaluate(program, *values, limit=2)
    for i, x in enumerate(values):
        check_everything(found[6 * i : 6 * i + 6], x, 0)


def test_every_dimension():
    x = integers((4, 3, 6), LIMIT, 1)

    def program(p: Any, x: Any) -> list[Any]:
        cases = product(DIMS, (2, 4))
        return [result for dim, radix in cases for result in everything(p, x, dim, radix)]

    found, _ = evaluate(program, x, limit=LIMIT)
    for i, (dim, _) in enumerate(product(DIMS, (2, 4))):
        check_everything(found[6 * i : 6 * i + 6], x, dim)


def test_argmax_and_one_hot():
    x = integers((5, 7), 3, 1)
    found, _ = evaluate(lambda p, x: [p.argmax(x), p.one_hot_argmax(x, 0)], x, limit=3)
    assert torch.equal(found[0], first_largest(x, 1))
    assert torch.equal(found[1], marks(x, 0))


@EVERYWHERE
@pytest.mark.parametrize("radix", [2, 4, None])
def test_pending_divisions(protocol, by, radix):
    """A unit for the division, and one for which of two close quotients is larger."""
    x, y = integers((5, 11), LIMIT, 2), integers((5, 11), LIMIT, 3)

    def program(p: Any, x: Any, y: Any) -> list[Any]:
        products = [p.mul(x, y, shift=6) for _ in range(3)]
        value, index = p.max_with_index(products[1], 1, radix=radix)
        return [p.max(products[0], 1, radix=radix), value, index, p.max(products[2][:, :1])]

    found, _ = evaluate(program, x, y, protocol=protocol, by=by, limit=LIMIT)
    quotients = (x * y).double() / 64
    close(found[0], quotients.amax(1), 2)
    close(found[1], quotients.amax(1), 2)
    close(quotients.gather(1, found[2].unsqueeze(1)).squeeze(1), quotients.amax(1), 1)
    close(found[3], quotients[:, 0], 1)


@EVERYWHERE
@pytest.mark.parametrize("radix", [2, 4, 7, None])
def test_quotients_less_than_a_unit_apart(protocol, by, radix):
    """Whichever of them wins, it is not the last element of the group, which is far below."""
    x = 6400 + integers((500, 7), 31, 4)
    x[:, 3] = x[:, 6] = -64000

    def program(p: Any, x: Any, one: Any) -> Any:
        return p.max(p.mul(x, one, shift=6), 1, radix=radix)

    [found], _ = evaluate(
        program, x, torch.ones(1, 1).long(), protocol=protocol, by=by, limit=LIMIT
    )
    close(found, torch.full((500,), 100.0), 2)


@pytest.mark.parametrize("n", [1, 2, 5, 40])
@pytest.mark.parametrize("pending", [False, True])
def test_rounds(n, pending):
    """A pending division costs a round only where nothing is compared."""
    x, limit, comparison = integers((n, 3), 1 << 20, n), 1 << 20, 2

    def rounds(operation: Any) -> int:
        def program(p: Any, x: Any) -> Any:
            return operation(p, p.mul(x, x, shift=20) if pending else x)

        return evaluate(program, x, limit=limit)[1] - pending

    levels = ceil(log2(n))
    alone = int(pending and n == 1)
    assert rounds(lambda p, x: p.max(x, 0)) == levels * (comparison + 1) + alone
    assert rounds(lambda p, x: p.argmax(x, 0)) == levels * (comparison + 1) + alone
    down = 0 if levels < 2 else 1 + ceil(max(levels - 4, 0) / 3)
    assert rounds(lambda p, x: p.one_hot_argmax(x, 0)) == levels * (comparison + 1) + down + alone
    fours = ceil(log2(n) / 2) if n > 1 else 0
    most = fours * (comparison + 2) + alone
    last_is_a_pair = n > 1 and n <= 2 * 4 ** (fours - 1)
    assert rounds(lambda p, x: p.max(x, 0, radix=4)) == most - last_is_a_pair


def test_the_largest_of_windows():
    """Max pooling: the caller unfolds, the largest is over the last dimension."""
    image = integers((2, 3, 8, 8), LIMIT, 5)

    def program(p: Any, x: Any) -> Any:
        windows = x.unfold(2, 3, 2).unfold(3, 3, 2)
        return p.max(windows.reshape(2, 3, 3, 3, 9), radix=4)

    [found], _ = evaluate(program, image, limit=LIMIT)
    wanted = torch.nn.functional.max_pool2d(image.double(), 3, 2)
    assert torch.equal(found.double(), wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"dim": 2}, "dim=2"), ({"dim": 1}, "nothing to compare"), ({"radix": 1}, "radix=1")],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(PartyFailed, match=message):
        evaluate(lambda p, x: p.max(x, **{"dim": 0, **arguments}), torch.zeros(3, 0).long())
