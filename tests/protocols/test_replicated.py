"""Replicated sharing against plain integers, and alternating with trio on the same shares."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.draws import edges, ring_tensor
from torch import Tensor

import tacit
from tacit import Session
from tacit.errors import ConfigError, PartyFailed
from tacit.kernels import bit_planes
from tacit.protocols import MATMUL, MUL, BitSum, Replicated, Trio
from tacit.protocols.cost import Cost
from tacit.protocols.replicated.costs import ReplicatedCosts
from tacit.ring import RING32, RING64, Ring

RINGS = pytest.mark.parametrize("ring", [RING32, RING64], ids=["32", "64"])
SIZES = (0, 1, 63, 65)


def run(main: Any, *args: Any, ring: Ring = RING64, **settings: Any) -> Any:
    """Returns the result of the parties, which must be the same at all of them."""
    settings = {"protocol": "replicated", "ring": ring.bits, "fraction_bits": 8} | settings
    first, *others = tacit.run(main, *args, **settings)
    assert all(_same(first, other) for other in others)
    return first


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return torch.equal(a, b) if isinstance(a, Tensor) else a == b


def wrapped(values: list[int], ring: Ring) -> Tensor:
    """Big integers as ring elements."""
    return torch.tensor([ring.wrap(value) for value in values], dtype=ring.dtype)


def turns(session: Session) -> list[Any]:
    """The protocol with each party as the adder."""
    protocol: Any = session.protocol
    return [protocol.rotated(by) for by in range(3)]


def secret(p: Any, value: Tensor, owner: int, *, limit: int | None = None) -> Any:
    """Returns a share with random parts; in a fresh one the part that the owner lacks is zero."""
    r = p.random(value.shape)
    x = p.sub(p.add(p.share(value, owner), r), p.public(p.reveal(r)))
    return x if limit is None else x.promise(limit)


def secret_bits(p: Any, value: Tensor, owner: int, width: int = 1) -> Any:
    """The same for the low bits of a tensor."""
    r = p.random_bits(value.shape, width)
    known = bit_planes(p.reveal(r).to(value.dtype), width)
    x = p.share_bits(bit_planes(value, width), owner, value.shape, width)
    return p.bit_xor_public(p.bit_xor(x, r), known)


# Input and output -------------------------------------------------------------------------------


def share_and_reveal(session: Session, value: Tensor) -> list[Any]:
    p = session.protocol
    found = []
    for owner in range(3):
        mine = value if session.rank == owner else None
        planes = bit_planes(value, 5) if session.rank == owner else None
        x = p.share(mine, owner, value.shape)
        bits = p.share_bits(planes, owner, value.shape, 5)
        assert set(x.parts) == set(bits.parts) == {0, 1, 2} - {session.rank}
        found += [p.reveal(x), p.reveal(bits)]
        for to in range(3):
            got = p.reveal(x, to)
            assert got is None if session.rank != to else torch.equal(got, value)
    return found


@RINGS
@pytest.mark.parametrize("size", SIZES)
def test_what_is_shared_is_revealed(ring, size):
    value = ring_tensor(ring, (size,), 1)
    found = run(share_and_reveal, value, ring=ring)
    assert all(torch.equal(x, value) for x in found[::2])
    assert all(torch.equal(bits, (value & 31).long()) for bits in found[1::2])


def constants(session: Session, value: Tensor, planes: Tensor) -> list[Any]:
    p = session.protocol
    x, bits = p.public(value), p.public_bits(planes, value.shape)
    y = p.add(p.add_public(p.mul_public(x, 3), 7), p.neg(p.random(value.shape)))
    same = p.sub(y, y)
    results = [x, p.add_public(p.mul_public(x, 3), 7), same]
    results += [p.bit_not(bits), p.bit_xor_public(bits, planes), p.bit_and_public(bits, planes)]
    return [p.reveal(result) for result in results]


@RINGS
def test_public_values_become_shares(ring):
    value = ring_tensor(ring, (65,), 2)
    planes = bit_planes(value, 4)
    x, y, zero, inverse, nothing, same = run(constants, value, planes, ring=ring)
    assert torch.equal(x, value)
    assert torch.equal(y, value * 3 + 7)
    assert not zero.any()
    assert not nothing.any()
    assert torch.equal(same, (value & 15).long())
    assert torch.equal(inverse, (~value & 15).long())


# Products ---------------------------------------------------------------------------------------


def multiply(session: Session, a: Tensor, b: Tensor) -> list[Any]:
    p = session.protocol
    x, y = secret(p, a, 0), secret(p, b, 2)
    return [p.reveal(z) for z in (p.mul(x, y), p.square(x), p.mul(y, y))]


@RINGS
def test_products_of_extreme_values(ring):
    numbers = edges(ring)
    a = wrapped(numbers * len(numbers), ring)
    others = [other for other in numbers for _ in numbers]
    product, square, other = run(multiply, a, wrapped(others, ring), ring=ring)
    pairs = list(zip(numbers * len(numbers), others, strict=True))
    assert torch.equal(product, wrapped([x * y for x, y in pairs], ring))
    assert torch.equal(square, wrapped([x * x for x, _ in pairs], ring))
    assert torch.equal(other, wrapped([y * y for _, y in pairs], ring))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 5), max_size=3), st.sampled_from([RING32, RING64]), st.integers(0))
def test_products_of_any_shape(shape, ring, seed):
    a = ring_tensor(ring, tuple(shape), seed % 2**32)
    b = ring_tensor(ring, (3, *shape[:-1], 1) if shape else (), seed % 2**31)
    product, *_ = run(multiply, a, b, ring=ring)
    assert torch.equal(product, a * b)


def bilinear(session: Session, a: Tensor, b: Tensor, image: Tensor, weight: Tensor) -> list[Any]:
    p = session.protocol
    x, y = secret(p, a, 1), secret(p, b, 2)
    results = [
        p.matmul(x, y),
        p.matmul(x, x),
        p.matmul(x.transpose(0, 1), y),
        p.outer(x[0], x[1]),
        p.einsum("ij,jk->ki", x, y),
        p.conv(secret(p, image, 0), secret(p, weight, 1), padding=1, groups=2),
        p.bilinear(MATMUL, x, y[:, 0]),
        p.bilinear(MUL, x.expand(3, 4, 4), y),
    ]
    return [p.reveal(result) for result in results]


@RINGS
@pytest.mark.parametrize("protocol", ["replicated", "trio"])
def test_bilinear_operations(ring, protocol):
    a, b = ring_tensor(ring, (4, 4), 3), ring_tensor(ring, (4, 4), 4)
    image, weight = ring_tensor(ring, (2, 4, 5, 5), 5), ring_tensor(ring, (6, 2, 3, 3), 6)
    found = run(bilinear, a, b, image, weight, ring=ring, protocol=protocol)
    expected = [a @ b, a @ a, a.T @ b, torch.outer(a[0], a[1]), (a @ b).T]
    expected += [torch.nn.functional.conv2d(image, weight, padding=1, groups=2)]
    expected += [a @ b[:, 0], (a * b).expand(3, 4, 4)]
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


# Truncation -------------------------------------------------------------------------------------


def divide(session: Session, value: Tensor, t: int, exact: bool) -> list[Any]:
    return [
        p.reveal(p.truncate(secret(p, value, owner).divided(t), exact=exact))
        for owner, p in enumerate(turns(session))
    ]


@RINGS
@pytest.mark.parametrize("t", [1, 7, 13])
def test_exact_division_is_never_off_by_more_than_one(ring, t):
    most = (1 << (ring.bits - 2)) - 1
    numbers = [n for n in edges(ring) if abs(n) <= most] + [most, -most]
    for quotient in run(divide, wrapped(numbers, ring), t, True, ring=ring):
        errors = [got - (n >> t) for got, n in zip(quotient.tolist(), numbers, strict=True)]
        assert set(errors) <= {0, 1}


@pytest.mark.parametrize("size", SIZES)
def test_probabilistic_division_of_small_numbers(size):
    """A wrap is as likely as |x| / 2^64: 1e-13 for all these."""
    value = ring_tensor(RING64, (size,), 7) >> 48
    for quotient in run(divide, value, 9, False):
        assert set((quotient - (value >> 9)).tolist()) <= {0, 1}


def test_probabilistic_division_fails_as_often_as_declared():
    """|x| / 2^k = 1/8; 3 x 20000 elements are within 0.01 of it (7 standard deviations)."""
    value = torch.full((20000,), 1 << 29, dtype=torch.int32)
    found = torch.cat(run(divide, value, 5, False, ring=RING32))
    wrong = found - (1 << 24)
    assert set(wrong.tolist()) <= {0, 1, -(1 << 27), 1 - (1 << 27)}
    assert abs(float((wrong < 0).double().mean()) - 1 / 8) < 0.01


def fused(session: Session, a: Tensor, b: Tensor) -> list[Any]:
    found = []
    for p in turns(session):
        x, y = (secret(p, v, 1, limit=1 << 12) for v in (a, b))
        z = p.mul(x, y, shift=8)
        assert z.pending == (8 if p.exact else 0)
        found += [p.reveal(z), p.reveal(p.add(z, p.mul(x, x, shift=8)))]
        assert p.exact or z.limit == (1 << 16) + 1
    return found


@pytest.mark.parametrize("truncation", ["exact", "probabilistic"])
@pytest.mark.parametrize("size", SIZES)
def test_products_are_divided(truncation, size):
    a, b = (ring_tensor(RING64, (size,), seed) >> 51 for seed in (8, 9))
    found = run(fused, a, b, truncation=truncation)
    for product, total in zip(found[::2], found[1::2], strict=True):
        assert set((product - (a * b >> 8)).tolist()) <= {0, 1}
        assert set((total - (a * b + a * a >> 8)).tolist()) <= {-1, 0, 1, 2}


def settle_once(session: Session) -> tuple[int, int]:
    p = session.protocol
    x = p.share(torch.arange(9), 0, limit=9)
    z = p.mul(x, x, shift=2)
    p.settled(z)
    with session.stats.scope("again") as cost:
        p.settled(z)
    return z.pending, cost.messages


def test_a_division_is_paid_for_once():
    assert run(settle_once) == (0, 0)


# Bits -------------------------------------------------------------------------------------------


def gates(session: Session, values: list[Tensor], width: int) -> list[Any]:
    p = session.protocol
    bits = [secret_bits(p, v, i % 3, width) for i, v in enumerate(values)]
    return [p.reveal(p.bit_and(*bits[:fan_in])) for fan_in in range(2, 10)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("width", [1, 3])
def test_and_of_two_to_nine(size, width):
    # Mostly ones, so that the AND of nine is not always zero.
    values = [ring_tensor(RING64, (size,), s) | ring_tensor(RING64, (size,), -s) for s in range(9)]
    found = run(gates, values, width)
    expected = values[0]
    for value, got in zip(values[1:], found, strict=True):
        expected = expected & value
        assert torch.equal(got.long(), expected & ((1 << width) - 1))


def too_many(session: Session, count: int) -> None:
    p = session.protocol
    p.bit_and(*[p.random_bits((3,))] * count)


@pytest.mark.parametrize("count", [1, 10])
def test_a_gate_has_two_to_nine_inputs(count):
    with pytest.raises(PartyFailed, match="2 to 9 are allowed"):
        run(too_many, count)


# Comparison -------------------------------------------------------------------------------------


def compare_all(session: Session, numbers: list[int], limit: int | None) -> list[Any]:
    ring, found = session.protocol.ring, []
    for owner, p in enumerate(turns(session)):
        x = secret(p, wrapped(numbers, ring), owner, limit=limit)
        found.append((p.reveal(p.sign(x)), p.reveal(p.is_zero(x))))
    return found


def check_comparison(numbers: list[int], ring: Ring, limit: int | None) -> None:
    for negative, zero in run(compare_all, numbers, limit, ring=ring):
        assert negative.tolist() == [n < 0 for n in numbers]
        assert zero.tolist() == [n == 0 for n in numbers]


@RINGS
def test_signs_and_zeros_of_the_whole_ring(ring):
    check_comparison([n for n in edges(ring) if ring.low <= n <= ring.high], ring, None)


@RINGS
@pytest.mark.parametrize("m", [0, 1, 2, 8, 15, 29])
def test_signs_and_zeros_in_a_window(ring, m):
    most = (1 << m) - 1
    numbers = [n for n in [*edges(ring), most, -most] if abs(n) <= most]
    check_comparison(numbers, ring, most)
    check_comparison([*numbers, most + 1, -most - 1], ring, most + 1)


@pytest.mark.parametrize("size", SIZES)
def test_comparisons_of_any_size(size):
    check_comparison((ring_tensor(RING64, (size,), 10) >> 30).tolist(), RING64, 1 << 33)


def many_thresholds(session: Session, value: Tensor, thresholds: list[int]) -> list[Any]:
    p = session.protocol
    x = secret(p, value, 2, limit=1 << 20)
    bits = p.signs(x, thresholds)
    used = p.inject(bits[1], x), p.bit_and(*bits[:2]), p.inject_sums(bits[:2], None, [SUM])
    return [[p.reveal(bit) for bit in bits], *map(p.reveal, used[:2]), p.reveal(used[2][0])]


SUM = BitSum((0, 0), (1, 1))


@RINGS
def test_many_thresholds_in_the_rounds_of_one(ring):
    thresholds = [0, 5, -5, 1 << 20, -(1 << 20), (1 << 22) + 1]
    numbers = [0, 4, 5, 6, -4, -5, -6, 1 << 20, -(1 << 20), (1 << 20) - 1, *range(60)]
    value = torch.tensor(numbers, dtype=ring.dtype)
    bits, product, both, total = run(many_thresholds, value, thresholds, ring=ring)
    for t, got in zip(thresholds, bits, strict=True):
        assert torch.equal(got, value < t)
    assert torch.equal(product, torch.where(value < 5, value, 0))
    assert torch.equal(both, value < 0)
    assert torch.equal(total, ((value < 0).int() + (value < 5).int()).to(ring.dtype))


def pending_signs(session: Session, value: Tensor, t: int, low: int) -> list[Any]:
    found = []
    for p in turns(session):
        x = secret(p, value, 0, limit=(1 << 29) - 1).divided(t)
        found.append([p.reveal(bit) for bit in p.signs(x, [0, 100], low=low)])
        assert x.pending == t
    return found


@RINGS
@pytest.mark.parametrize(("t", "low"), [(7, 0), (0, 4), (5, 3)])
def test_signs_of_quotients_and_without_low_bits(ring, t, low):
    """x is rounded up by less than one unit of the bits that are compared, never down."""
    value = (ring_tensor(ring, (500,), 11) >> (ring.bits - 30)).clamp(-(2**29) + 1, 2**29 - 1)
    value = torch.cat([value, torch.arange(-300, 300, dtype=ring.dtype)])
    for found in run(pending_signs, value, t, low, ring=ring):
        for threshold, got in zip((0, 100), found, strict=True):
            distance = value - (threshold << t)
            assert not got[distance >= 0].any()
            assert got[distance < -(1 << (t + low))].all()


def test_low_bits_leave_something_over():
    with pytest.raises(PartyFailed, match="nothing is left"):
        run(lambda session: session.protocol.sign(session.protocol.random((2,)), low=63))


# Injection --------------------------------------------------------------------------------------

ROWS = [
    BitSum((1, 0, -3), (0, 7, 1 << 40)),
    BitSum((0, 0, 0), (-1, 0, 2)),
    BitSum((2, 5, 0), (0, 0, 0)),
]


def inject_all(session: Session, value: Tensor, flags: Tensor) -> list[Any]:
    found = []
    for owner, p in enumerate(turns(session)):
        x = secret(p, value, owner)
        bits = [secret_bits(p, f, owner) for f in flags]
        found.append(
            [
                p.reveal(p.inject(bits[0], x)),
                *map(p.reveal, p.inject_sums(bits, x, ROWS)),
                p.reveal(p.inject_sums(bits, None, [ROWS[1]])[0]),
            ]
        )
    return found


@RINGS
@pytest.mark.parametrize("shape", [(0,), (1,), (63,), (5, 13), ()])
def test_injection_of_any_values(ring, shape):
    value = ring_tensor(ring, shape, 12)
    flags = ring_tensor(ring, (3, *shape), 13) & 1
    numbers, bits = value.flatten().tolist(), flags.reshape(3, -1).T.tolist()

    def expected(row: BitSum) -> Tensor:
        sums = [
            sum((o + s * n) * b for o, s, b in zip(row.offsets, row.scales, bs, strict=True))
            for n, bs in zip(numbers, bits, strict=True)
        ]
        return wrapped(sums, ring).reshape(shape)

    for product, *sums, without in run(inject_all, value, flags, ring=ring):
        assert torch.equal(product, value * flags[0])
        assert all(torch.equal(got, expected(row)) for got, row in zip(sums, ROWS, strict=True))
        assert torch.equal(without, expected(ROWS[1]))


def inject_pending(session: Session, value: Tensor) -> list[Any]:
    p = session.protocol
    x = secret(p, value, 1, limit=1 << 12)
    z = p.mul(x, x, shift=6)
    y = p.sub(z, p.public(torch.full_like(value, 50)))
    relu = p.inject(p.bit_not(p.sign(y)), y)
    assert relu.limit <= y.limit + 1
    return [p.reveal(relu), p.reveal(p.inject_sums([p.sign(y)], y, [BitSum((3,), (1,))])[0])]


@pytest.mark.parametrize("truncation", ["exact", "probabilistic"])
def test_what_is_pending_is_divided_before_injection(truncation):
    value = torch.arange(-100, 100)
    exact = (value * value >> 6) - 50
    relu, total = run(inject_pending, value, truncation=truncation)
    assert set((relu - exact.clamp(min=0)).tolist()) <= {0, 1}
    away = exact < -1
    assert set((total - 3 * exact - 1)[away].tolist()) <= {0, 3}


# Side by side, and with trio --------------------------------------------------------------------


def side_by_side(session: Session, value: Tensor) -> tuple[list[Any], int]:
    p = session.protocol
    x, bit = secret(p, value, 0, limit=1 << 20), secret_bits(p, value, 1)
    with session.stats.scope("block") as cost, p.parallel():
        results = [p.sign(x), p.mul(x, x), p.inject(bit, x), p.is_zero(x), p.bit_and(bit, bit)]
    return [p.reveal(result) for result in results], cost.rounds


def test_independent_calls_share_rounds():
    value = torch.arange(-33, 32)
    by_party = tacit.run(side_by_side, value, protocol="replicated")
    expected = [value < 0, value * value, value * (value & 1), value == 0, (value & 1).bool()]
    for found, _ in by_party:
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    # 22 bits: a sharing, the first ANDs, 5 levels.
    assert max(rounds for _, rounds in by_party) == 7


def in_turn(session: Session, value: Tensor) -> list[Any]:
    """A secret goes from protocol to protocol, in all roles, and keeps its value."""
    context, found = session.protocol.context, []
    for dealer in range(3):
        trio = Trio(context, roles=(dealer, (dealer + 2) % 3, (dealer + 1) % 3))
        for adder in range(3):
            p = Replicated(context, adder=adder)
            x = secret(trio, value, adder, limit=1 << 10)
            product = trio.mul(p.mul(x, x), p.add_public(x, 1))
            negative, bit = trio.sign(p.neg(x)), p.sign(x)
            some = p.inject(p.bit_xor(negative, bit), product)
            divided = p.mul(x, x, shift=3)
            held = trio.mul(x, x, shift=3)  # its mask is the dealer's alone
            found.append(
                [
                    p.reveal(trio.add(some, p.random(value.shape).scaled(0))),
                    trio.reveal(p.bit_and(negative, bit)),
                    trio.reveal(trio.inject(bit, divided)),
                    p.reveal(p.sign(p.add_public(trio.mul(x, x, shift=3), -50))),
                    p.reveal(p.truncate(trio.mul(x, x, shift=3))),
                    p.reveal(p.mul(p.add_public(held, 1), x)),
                ]
            )
    return found


def test_shares_serve_trio_and_replicated_in_turn():
    value = torch.arange(-40, 41)
    for some, neither, divided, small, again, product in run(in_turn, value):
        assert torch.equal(some, value * value * (value + 1))
        assert not neither.any()
        quotient = value * value >> 3
        assert set((divided - torch.where(value < 0, quotient, 0)).tolist()) <= {0, 1}
        assert small[quotient < 49].all()
        assert not small[quotient >= 50].any()
        assert set((again - quotient).tolist()) <= {0, 1}
        steps = (product - (quotient + 1) * value)[value != 0] // value[value != 0]
        assert set(steps.tolist()) <= {0, 1}


def add_unsettled(session: Session) -> None:
    p = session.protocol
    trio = Trio(p.context)
    x = trio.share(torch.arange(5), 0, limit=5)
    p.add(trio.mul(x, x, shift=1), x)


def test_a_dealers_mask_is_settled_before_it_is_added():
    with pytest.raises(PartyFailed, match="settle it first"):
        run(add_unsettled)


def test_the_adder_is_a_party():
    with pytest.raises(PartyFailed, match="adder=3") as caught:
        run(lambda session: Replicated(session.protocol.context, adder=3))
    assert isinstance(caught.value.__cause__, ConfigError)


# Costs ------------------------------------------------------------------------------------------

COSTS = ReplicatedCosts(64)


def total(cost: Cost, n: int = 64) -> tuple[int, int, int]:
    """Rounds, and bits for an element in all: online and ahead."""
    bits = [sum(b for link, b in cost.bits.items() if link[2] == ahead) for ahead in (False, True)]
    assert not any(b % n for b in bits)
    return cost.rounds, bits[0] // n, bits[1] // n


def test_golden_figures():
    n = 64
    assert total(COSTS.bilinear(n)) == (1, 3 * 64, 0)
    assert total(COSTS.bilinear(n, 16, exact=False)) == (2, 3 * 64, 0)
    assert total(COSTS.truncate(n, 16, exact=False)) == (1, 64, 0)
    assert total(COSTS.truncate(n, 16)) == (1, 2 * 64, 64 + 16)
    assert total(COSTS.reveal(n)) == (1, 3 * 64, 0)
    assert total(COSTS.bit_and(n, 1, 2)) == (1, 3, 0)
    assert total(COSTS.inject(n)) == (1, 3 * 65, 4 * 64)
    for width, bits, rounds in ((64, 202, 8), (32, 97, 7)):
        found_rounds, online, _ = total(COSTS.signs(n, width))
        assert (found_rounds, round(online / 3)) == (rounds, bits)


def test_gates_cost_every_party_the_same():
    for cost in (COSTS.bilinear(9), COSTS.reveal(9), COSTS.bit_and(9, 2, 5)):
        assert {a for a, _, _ in cost.bits} == {0, 1, 2}
        assert len(set(cost.bits.values())) == 1


def count(session: Session, n: int) -> list[tuple[Cost, Cost]]:
    """Counted at this party, and declared, in every rotation."""
    rank, found = session.rank, []
    for p in turns(session):
        costs, value = p.costs, torch.zeros(n, dtype=p.ring.dtype)
        planes, x = bit_planes(value, 5), p.share(value, 1, limit=1 << 10)
        bits, flag = p.random_bits((n,), 5), p.random_bits((n,))
        divided = x.divided(2)
        calls = [
            (p.share_bits, (planes, 2, (n,), 5), costs.share_bits(n, 2, 5)),
            (p.reveal, (bits, 1), costs.reveal_bits(n, 5, 1)),
            (p.reveal, (bits,), costs.reveal_bits(n, 5)),
            (p.square, (x,), costs.bilinear(n)),
            (partial(p.square, shift=3), (x,), costs.bilinear(n, 3, p.exact)),
            (p.signs, (x, [1, 2]), costs.signs(n, 12, 2)),
            (p.is_zero, (x,), costs.is_zero(n, 12)),
            (p.inject, (flag, divided), costs.inject(n, 2, p.exact)),
        ]
        for call, args, declared in calls:
            with session.stats.scope("call") as spent:
                call(*args)
            counted: dict[tuple[int, int, bool], int] = {}
            for peer, cost in spent.peers.items():
                counted[rank, peer, True] = 8 * cost.bytes_sent_ahead
                counted[rank, peer, False] = 8 * (cost.bytes_sent - cost.bytes_sent_ahead)
            found.append((Cost(spent.rounds, {k: b for k, b in counted.items() if b}), declared))
    return found


@RINGS
@pytest.mark.parametrize("truncation", ["exact", "probabilistic"])
@pytest.mark.parametrize("n", [1, 65])
def test_declared_is_counted(ring, truncation, n):
    settings = {"ring": ring.bits, "fraction_bits": 8, "truncation": truncation}
    by_party = tacit.run(count, n, protocol="replicated", **settings)
    for views in zip(*by_party, strict=True):
        declared = views[0][1]
        bits = {link: b for counted, _ in views for link, b in counted.bits.items()}
        rounds = max(counted.rounds for counted, _ in views)
        assert (rounds, bits) == (declared.rounds, dict(declared.bits))


def test_the_share_of_an_empty_tensor_costs_nothing():
    for cost in (COSTS.share(0, 1), COSTS.signs(0, 64), COSTS.inject(0)):
        assert prod(bits + 1 for bits in cost.bits.values()) == 1
