"""The plain reference agrees with integers, for any number of parties, and refuses a network."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.kernels.draws import edges, ring_tensor
from torch import Tensor

import tacit
from tacit import Session
from tacit.errors import ConfigError, PartyFailed
from tacit.kernels import bit_planes
from tacit.protocols import BitSum
from tacit.ring import RING32, RING64, Ring

RINGS = pytest.mark.parametrize("ring", [RING32, RING64], ids=["32", "64"])
ROW = BitSum((2, -1), (7, 1 << 33))


def run(main: Any, *args: Any, ring: Ring = RING64, **settings: Any) -> list[Any]:
    settings = {"protocol": "cleartext", "ring": ring.bits, "fraction_bits": 8} | settings
    return tacit.run(main, *args, **settings)


def everything(session: Session, a: Tensor, b: Tensor, owner: int) -> list[Any]:
    p = session.protocol
    mine = session.rank == owner
    x = p.share(a if mine else None, owner, a.shape)
    y = p.share(b if mine else None, owner, b.shape)
    bits = p.share_bits(bit_planes(b, 3) if mine else None, owner, b.shape, 3)
    flag = bits.planes(0, 1)
    with p.parallel():
        product, quotient = p.mul(x, y), p.mul(x, y, shift=5)
    results = [
        x,
        product,
        quotient,
        p.square(x),
        p.truncate(x.divided(9)),
        p.add(x.divided(3), p.public(b)),
        p.sub(p.add_public(x, 4), p.mul_public(y, 3)),
        p.sign(x),
        *p.signs(x, [0, 5]),
        p.is_zero(x),
        bits,
        p.bit_and(flag, bits.planes(1, 2), bits.planes(2, 3)),
        p.bit_not(flag),
        p.inject(flag, x),
        p.inject(flag, x.divided(2)),
        *p.inject_sums([flag, bits.planes(1, 2)], x, [ROW]),
        *p.inject_sums([flag, bits.planes(1, 2)], None, [ROW]),
    ]
    return [p.reveal(result) for result in results]


def nearest(x: Tensor, bits: int) -> Tensor:
    """Returns x / 2^bits, rounded to nearest, halves up."""
    return (x >> bits) + ((x >> (bits - 1)) & 1)


def expected(a: Tensor, b: Tensor, ring: Ring) -> list[Tensor]:
    bits = [(b >> i) & 1 for i in range(3)]
    offsets = [ring.wrap(offset) for offset in ROW.offsets]
    without = offsets[0] * bits[0] + offsets[1] * bits[1]
    return [
        a,
        a * b,
        nearest(a * b, 5),
        a * a,
        nearest(a, 9),
        nearest(a + (b << 3), 3),
        a + 4 - b * 3,
        a < 0,
        a < 0,
        a < 5,
        a == 0,
        (b & 7).long(),
        (b & 7) == 7,
        bits[0] == 0,
        a * bits[0],
        nearest(a, 2) * bits[0],
        without + a * (2 * bits[0] - bits[1]),
        without,
    ]


@RINGS
@pytest.mark.parametrize(("parties", "owner"), [(1, 0), (2, 1), (3, 0), (5, 4)])
def test_operations_mean_what_integers_mean(ring, parties, owner):
    numbers = [ring.wrap(n) for n in edges(ring)]
    a = torch.tensor(numbers, dtype=ring.dtype)
    b = ring_tensor(ring, a.shape, 1)
    for found in run(everything, a, b, owner, ring=ring, parties=parties):
        for i, pair in enumerate(zip(found, expected(a, b, ring), strict=True)):
            assert torch.equal(*pair), i


@pytest.mark.parametrize("shape", [(), (0,), (1,), (63,), (5, 13)])
def test_any_shape(shape):
    a, b = ring_tensor(RING64, shape, 2), ring_tensor(RING64, shape, 3)
    for found in run(everything, a, b, 1):
        assert all(map(torch.equal, found, expected(a, b, RING64)))


def matrices(session: Session, a: Tensor) -> list[Any]:
    p = session.protocol
    x = p.share(a, 0)
    return [p.reveal(p.matmul(x, x, shift=1)), p.reveal(p.einsum("ij,kj->ik", x, x))]


def test_products_of_matrices():
    a = ring_tensor(RING64, (4, 4), 4)
    for squared, other in run(matrices, a):
        assert torch.equal(squared, nearest(a @ a, 1))
        assert torch.equal(other, a @ a.T)


def draws(session: Session) -> list[Any]:
    p = session.protocol
    shares = p.random((65,)), p.random((65,)), p.random_bits((65,), 3)
    return [p.reveal(share) for share in shares]


@pytest.mark.parametrize("parties", [1, 4, 9])
def test_random_values_are_the_same_at_all_parties(parties):
    first, *others = run(draws, parties=parties)
    assert not torch.equal(first[0], first[1])
    assert 0 <= int(first[2].min()) <= int(first[2].max()) < 8
    assert all(map(torch.equal, first * len(others), [x for other in others for x in other]))


def keep_apart(session: Session) -> list[Any]:
    p = session.protocol
    given = torch.arange(3)
    x = p.share(given, 0)
    given += 1
    shown = p.reveal(x)
    shown += 1
    return [p.reveal(x), p.reveal(x, 1)]


def test_values_are_kept_apart_from_the_callers():
    for rank, (value, only_one) in enumerate(run(keep_apart)):
        assert torch.equal(value, torch.arange(3))
        assert (only_one is None) == (rank != 1)


def use_pending(session: Session) -> tuple[int, int]:
    p = session.protocol
    x = p.share(torch.arange(9), 0, limit=8).divided(1)
    y = p.settled(x)
    return x.pending, y.limit


def test_a_settled_value_stays_settled():
    assert run(use_pending) == [(0, 5)] * 3


BAD = {
    "needs a value": lambda p: p.share(None, 0),
    "are integers": lambda p: p.share(torch.ones(2), 0),
    "parties are 0 to 2": lambda p: p.share(torch.arange(2), 3),
    "has to give": lambda p: p.share_bits(None, 0, (2,)),
    "over no bits": lambda p: p.inject_sums([], None, [BitSum((), ())]),
    r"2\^63: .* 2\^62 at most": lambda p: p.truncate(p.public(torch.arange(2)).divided(63)),
    r"2\^64: .* 2\^62 at most": lambda p: p.mul(*[p.public(torch.arange(2))] * 2, shift=64),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused(message):
    with pytest.raises(PartyFailed, match=message) as caught:
        run(lambda session: BAD[message](session.protocol))
    assert isinstance(caught.value.__cause__, ConfigError)


def test_a_network_is_refused():
    with pytest.raises(ConfigError, match=r"cleartext.*shows every value"):
        run(draws, transport="processes")
