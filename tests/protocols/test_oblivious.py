"""Oblivious transfers of two parties: products of integers, uniform views, declared costs."""

from __future__ import annotations

import secrets
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds
from tests.protocols.two_parties import SESSION, Turns, counted, transfers
from tests.tiers import draws
from tests.transport.parties import run

from tacit.crypto import seed_trees
from tacit.errors import ConfigError, ProtocolError
from tacit.kernels import ot_receive_rows, unpack_bits
from tacit.protocols.oblivious import (
    and_triples,
    and_triples_cost,
    cross_product,
    cross_product_cost,
    cross_products,
    extension,
    matmul_triple,
    mul_triple,
    product_cost,
    receive_product,
    send_product,
    set_up,
    setup,
    setup_cost,
    triples,
)
from tacit.protocols.steps import together
from tacit.ring import RING32, RING64, OtProduct


@pytest.fixture(scope="module")
def ends():
    return transfers()


def words(count: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(secrets.token_bytes(8 * count)), dtype=torch.int64)


def random(ring, *shape: int) -> torch.Tensor:
    seed = secrets.randbits(30)
    print(f"seed {seed}")
    return ring_tensor(ring, shape, seed)


def chi_square(tensors: list[torch.Tensor]) -> float:
    """Of all bytes; 255 is expected, and 415 exceeded once in 10^9 times."""
    data = torch.cat([tensor.contiguous().view(torch.uint8).view(-1) for tensor in tensors])
    counts = torch.bincount(data.long(), minlength=256)
    mean = len(data) / 256
    return float(((counts - mean) ** 2 / mean).sum())


def exact_product(ring, a: torch.Tensor, b: torch.Tensor) -> list[list[list[int]]]:
    """Of batches of matrices, by Python's integers."""
    return [
        [
            [
                ring.wrap(sum(x * y for x, y in zip(r, c, strict=True)))
                for c in zip(*rt, strict=True)
            ]
            for r in lt
        ]
        for lt, rt in zip(a.tolist(), b.tolist(), strict=True)
    ]


# Setup -------------------------------------------------------------------------------------------


def test_both_ends_of_a_setup_fit(ends):
    """The offset is the difference of the rows; the seeds are the other side's but one of each."""
    for sender, receiver in (
        (ends[0].sender, ends[1].receiver),
        (ends[1].sender, ends[0].receiver),
    ):
        offset = sum((word % 2**64) << 64 * i for i, word in enumerate(sender.offset.tolist()))
        for tree in range(32):
            point = offset >> 4 * tree & 15
            own, other = sender._seeds[tree], receiver._seeds[tree]
            assert own[0].tolist() == [0, 0]
            assert all(own[x].equal(other[x ^ point]) for x in range(1, 16))
        assert torch.equal(sender.key, receiver.key)
    assert not torch.equal(ends[0].sender.offset, ends[1].sender.offset)
    assert not torch.equal(ends[0].receiver._seeds, ends[1].receiver._seeds)


def test_setups_are_new_every_time(ends):
    others = transfers()
    assert not torch.equal(ends[0].sender.key, others[0].sender.key)
    assert not torch.equal(ends[0].sender.offset, others[0].sender.offset)


def test_wiping():
    one, _ = transfers()
    one.wipe()
    assert not one.sender.offset.any()
    assert not one.sender._seeds.any()
    assert not one.receiver._seeds.any()


def test_what_seeds_are_made_of_is_wiped(monkeypatch):
    """All keys and leaves that a setup handled as bytes; what is left lies in its tensors."""
    wiped, real = [], setup.wipe

    def note(*values):
        wiped.extend(bytes(bytearray(value)) for value in values)
        real(*values)

    kept: list[bytes] = []
    planted, picked = setup.plant, setup.pick

    def plant(pairs, depth):
        made = planted(pairs, depth)
        kept.extend(key for pair in pairs for key in pair)
        kept.extend(leaf for tree in made[0] for leaf in tree)
        return made

    def pick(keys, *args, **options):
        made = picked(keys, *args, **options)
        kept.extend(keys)
        kept.extend(leaf for tree in made for leaf in tree if leaf is not None)
        return made

    for module in (setup, seed_trees):
        monkeypatch.setattr(module, "wipe", note)
    monkeypatch.setattr(setup, "plant", plant)
    monkeypatch.setattr(setup, "pick", pick)
    ends = transfers()
    assert len(kept) == 2 * (256 + 512 + 128 + 480)
    assert not any(any(secret) for secret in kept)
    seeds = {leaf.numpy().tobytes() for end in ends for leaf in end.receiver._seeds.flatten(0, 1)}
    assert len(seeds) == 1024
    assert seeds <= set(wiped)
    assert {end.sender.offset.numpy().tobytes() for end in ends} <= set(wiped)


# Products ----------------------------------------------------------------------------------------


@draws(40)
@given(ring=rings, sizes=st.lists(st.integers(1, 5), min_size=4, max_size=4), seed=seeds)
def test_a_product_of_two_parties(ends, ring, sizes, seed):
    product = OtProduct(*sizes, ring.bits, ring)
    left, right = ring_tensor(ring, product.left, seed), ring_tensor(ring, product.right, seed + 1)
    one, other = ends
    found = Turns().run(
        receive_product(one.receiver, product, left), send_product(other.sender, product, right)
    )
    assert sum(found).tolist() == exact_product(ring, left, right)


@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("count", [1, 3, 64, 127, 130])
def test_correlated_transfers(ends, ring, count):
    """The sender has x, the receiver x + c delta."""
    product = OtProduct(count, 1, 1, 1, 1, ring)
    choices = torch.randint(2, (count, 1, 1), dtype=ring.dtype)
    deltas = random(ring, count, 1, 1)
    received, sent = Turns().run(
        receive_product(ends[0].receiver, product, choices),
        send_product(ends[1].sender, product, deltas),
    )
    x = -sent
    assert torch.equal(received, x + choices * deltas)
    assert len(x.unique()) == count


@pytest.mark.parametrize("ring", [RING32, RING64])
def test_a_product_in_parts(ends, ring, monkeypatch):
    """Of any block size: the result is that of the whole."""
    product = OtProduct(2, 3, 5, 2, ring.bits, ring)
    left, right = random(ring, *product.left), random(ring, *product.right)
    element = cross_products._element_bytes(product)
    for elements in (1, 2, 5, 7, 14, 15, 29):
        monkeypatch.setattr(cross_products, "PART_BYTES", elements * element)
        parts = [*cross_products.parts(product)]
        assert all(p.product.transfers <= elements * ring.bits for p in parts)
        turns = Turns()
        shares = turns.run(
            receive_product(ends[0].receiver, product, left),
            send_product(ends[1].sender, product, right),
        )
        assert sum(shares).tolist() == exact_product(ring, left, right)
        assert turns.rounds == product_cost(product, 0, 1).rounds == 2 * len(parts)


# Triples -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 7), (129,)])
def test_mul_triples(ends, ring, shape):
    a, b = ([random(ring, *shape) for _ in ends] for _ in "ab")
    c = Turns().run(*(mul_triple(end, x, y) for end, x, y in zip(ends, a, b, strict=True)))
    exact = [
        ring.wrap(x * y)
        for x, y in zip(sum(a).view(-1).tolist(), sum(b).view(-1).tolist(), strict=True)
    ]
    assert sum(c).view(-1).tolist() == exact
    assert sum(c).shape == shape


@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1, 5, 3, 2), (1, 2, 3, 5), (3, 2, 9, 4)])
def test_matmul_triples(ends, ring, sizes):
    batch, m, k, n = sizes
    a = [random(ring, batch, m, k) for _ in ends]
    b = [random(ring, batch, k, n) for _ in ends]
    turns = Turns()
    c = turns.run(*(matmul_triple(end, x, y) for end, x, y in zip(ends, a, b, strict=True)))
    assert sum(c).tolist() == exact_product(ring, sum(a), sum(b))
    smaller = min(m, n) * k * batch * ring.bits  # transfers
    assert turns.messages[0][0].shape == (32, -(-smaller // 64))


@pytest.mark.parametrize("count", [1, 2, 17])
def test_and_triples(ends, count):
    a = [words(count) for _ in ends]
    (b0, c0), (b1, c1) = Turns().run(*(and_triples(end, x) for end, x in zip(ends, a, strict=True)))
    assert torch.equal(c0 ^ c1, (a[0] ^ a[1]) & (b0 ^ b1))
    for share in (b0, c0, b1, c1):
        ones = unpack_bits(share, (64 * count,), torch.int64).sum().item()
        assert abs(ones - 32 * count) <= 7 * (16 * count) ** 0.5


def test_and_triples_in_parts(ends, monkeypatch):
    monkeypatch.setattr(triples, "PART_WORDS", 3)
    a = [words(8) for _ in ends]
    (b0, c0), (b1, c1) = Turns().run(*(and_triples(end, x) for end, x in zip(ends, a, strict=True)))
    assert torch.equal(c0 ^ c1, (a[0] ^ a[1]) & (b0 ^ b1))


def test_side_by_side_with_different_numbers_of_rounds(ends, monkeypatch):
    """Both parties extend in the same order, although parts of one call end before the other's."""
    monkeypatch.setattr(triples, "PART_WORDS", 1)
    a, b, bits = ([random(RING64, 5) for _ in ends] for _ in range(3))
    monkeypatch.setattr(cross_products, "PART_BYTES", 2 * (64 * 16 + 33 * 8))
    calls = (
        together(mul_triple(end, x, y), and_triples(end, z))
        for end, x, y, z in zip(ends, a, b, bits, strict=True)
    )
    (c0, (b0, d0)), (c1, (b1, d1)) = Turns().run(*calls)
    assert torch.equal(c0 + c1, sum(a) * sum(b))
    assert torch.equal(d0 ^ d1, (bits[0] ^ bits[1]) & (b0 ^ b1))


# What parties see --------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 1, -1])
@pytest.mark.parametrize("right", [0, -1])
def test_views_are_uniform_for_any_operands(ends, left, right):
    """Every message of either party, and every share, for operands that are all alike."""
    turns, count = Turns(), 150
    a, b = torch.full((count,), left), torch.full((count,), right)
    product = OtProduct(count, 1, 1, 1, 64, RING64)
    shares = turns.run(
        *(cross_product(e, product, a.view(-1, 1, 1), b.view(-1, 1, 1)) for e in ends)
    )
    for seen in turns.messages.values():
        extended, whole, halves = seen
        assert chi_square([extended]) < 415
        assert chi_square([whole]) < 415
        assert chi_square([halves]) < 415
    assert chi_square([shares[0]]) < 415
    assert chi_square([shares[1]]) < 415
    assert len(torch.cat(shares).unique()) == 2 * count


def test_the_choices_do_not_move_the_senders_view():
    """The same extension with all choices 0 and all 1: complements, bit by bit; so whatever the
    choices are, the message is a fixed string XOR a stream that the sender cannot make."""
    chooser = transfers()[0].receiver
    zeros, ones = torch.zeros(20, dtype=torch.int64), torch.full((20,), -1)
    first, rows = ot_receive_rows(chooser._seeds, zeros, operation=1)
    second, same = ot_receive_rows(chooser._seeds, ones, operation=1)
    assert torch.equal(first, ~second)
    assert torch.equal(rows, same)


def test_setup_messages_are_uniform():
    """Random points have their top bit clear, so their last bytes are left out."""
    turns = Turns()
    turns.run(*(set_up(rank, 1 - rank, SESSION) for rank in (0, 1)))
    for seen in turns.messages.values():
        points = torch.cat(seen[::2]).view(-1, 32)[:, :31]
        assert chi_square([points]) < 415
        assert chi_square(seen[1::2]) < 415


# One use -----------------------------------------------------------------------------------------


def test_no_number_is_used_twice(monkeypatch):
    """Of streams: (seeds, operation). Of hashes: the transfers' numbers, over all kinds of use."""
    streams, hashed = [], set()

    def spied(place, name, log):
        real = getattr(place, name)

        def call(*args, **kwargs):
            log(args, kwargs)
            return real(*args, **kwargs)

        monkeypatch.setattr(place, name, call)

    def log_stream(args, kwargs):
        streams.append((args[0].data_ptr(), kwargs["operation"]))

    def log_hash(args, kwargs):
        [rows] = (a for a in args if isinstance(a, torch.Tensor) and a.ndim == 2)
        hashed.add((kwargs["first"], kwargs["first"] + len(rows)))

    for name in ("ot_receive_rows", "ot_send_rows"):
        spied(extension, name, log_stream)
    for name in ("ot_multiply_receive", "ot_multiply_send"):
        spied(cross_products, name, log_hash)
    spied(triples, "ot_bits", log_hash)
    ends = transfers()
    for count in (1, 65, 3):
        a = [random(RING64, count) for _ in ends]
        Turns().run(*(mul_triple(end, x, x) for end, x in zip(ends, a, strict=True)))
        Turns().run(*(and_triples(end, words(count)) for end in ends))
    assert len(streams) == len({*streams}) == 4 * 6  # sides of both directions, extensions
    assert len(hashed) == 6  # all sides number their transfers alike
    assert all(one[1] <= other[0] for one, other in pairwise(sorted(hashed)))


def test_transfers_end_before_the_hash_is_weak(monkeypatch):
    ends = transfers()
    monkeypatch.setattr(extension, "MOST_BLOCKS", 200)
    ends[0].receiver.extend(words(1), blocks=3)
    with pytest.raises(ProtocolError, match="used up") as caught:
        ends[0].receiver.extend(words(1))
    assert caught.value.party == 1


# Costs -------------------------------------------------------------------------------------------

MULTIPLIED = OtProduct(3, 1, 5, 7, 64, RING64)


def program(mesh):
    """Everything once over a mesh: (what was declared, what was counted) for each."""
    me, peer = mesh.rank, 1 - mesh.rank
    end, bits, rounds = counted(mesh, lambda: set_up(me, peer, SESSION))
    found = {"setup": (setup_cost(0, 1), bits, rounds)}
    for product in (
        MULTIPLIED,
        OtProduct(65, 1, 1, 1, 32, RING32),
        OtProduct(9, 1, 1, 2, 1, RING64),
    ):
        left, right = (
            torch.ones(shape, dtype=product.ring.dtype) for shape in (product.left, product.right)
        )
        _, bits, rounds = counted(
            mesh, lambda p=product, x=left, y=right: cross_product(end, p, x, y)
        )
        found[product] = cross_product_cost(product, 0, 1), bits, rounds
    _, bits, rounds = counted(mesh, lambda: and_triples(end, torch.zeros(3, dtype=torch.int64)))
    found["and"] = and_triples_cost(3, 0, 1), bits, rounds
    one_way = (
        (
            lambda: receive_product(
                end.receiver, MULTIPLIED, torch.ones(MULTIPLIED.left, dtype=torch.int64)
            )
        )
        if me == 0
        else (
            lambda: send_product(
                end.sender, MULTIPLIED, torch.ones(MULTIPLIED.right, dtype=torch.int64)
            )
        )
    )
    _, bits, _ = counted(mesh, one_way)
    found["one way"] = product_cost(MULTIPLIED, 0, 1), bits, 2  # each party waits in one of them
    return found


@pytest.mark.parametrize("kind", ["memory", "tcp"])
def test_costs_are_what_a_mesh_counts(kind):
    for rank, found in enumerate(run(kind, program).values()):
        for name, (declared, bits, rounds) in found.items():
            assert declared.bits.get((rank, 1 - rank, False), 0) == bits, name
            assert declared.rounds == rounds, name


def test_costs_of_one_product():
    """Protocols by hand: 4 bytes for each of 64 transfers, and 64 + 63 + ... + 1 bits."""
    cost = product_cost(OtProduct(1, 1, 1, 1, 64, RING64), 0, 1)
    assert cost.bits == {(0, 1, False): 8 * 4 * 64, (1, 0, False): 2080}
    assert cost.rounds == 2


# Errors ------------------------------------------------------------------------------------------


def test_wrong_messages_are_typed_errors(ends):
    for bad in (torch.zeros(31, 1, dtype=torch.int64), torch.zeros(32, 1, dtype=torch.int32)):
        with pytest.raises(ProtocolError) as caught:
            ends[0].sender.extend(bad)
        assert caught.value.party == 1
    steps = set_up(0, 3, SESSION)
    next(steps)
    with pytest.raises(ProtocolError) as caught:
        steps.send({3: [torch.zeros(100, dtype=torch.uint8)]})
    assert caught.value.party == 3


def test_wrong_operands_are_typed_errors(ends):
    a = torch.zeros(3, dtype=torch.int64)
    for steps in (
        mul_triple(ends[0], a, a[:2]),
        mul_triple(ends[0], a, a.int()),
        matmul_triple(ends[0], a.view(1, 1, 3), a.view(1, 1, 3)),
        receive_product(ends[0].receiver, MULTIPLIED, a),
        send_product(ends[0].sender, MULTIPLIED, a),
    ):
        with pytest.raises(ConfigError):
            next(steps)
