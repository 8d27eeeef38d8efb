"""Products with cached operands give what they give without a cache."""

from __future__ import annotations

import gc
from threading import Barrier

import pytest
import torch
from tests.kernels.draws import ring_tensor
from torch import nn

import tacit
from tacit.errors import ConfigError
from tacit.protocols import MATMUL, Conv
from tacit.protocols.products import cache
from tacit.protocols.products.cache import BUDGET_VARIABLE, OperandCache
from tacit.protocols.products.executor import ProductExecutor
from tacit.ring import RING32, RING64, Window

PROTOCOLS = pytest.mark.parametrize("protocol", ["trio", "replicated"])
PADDED = Conv(Window.make(2, padding=1))
GROUPED = Conv(Window.make(2, padding=1, groups=4))
SIZE = 256
"""Rows and columns of a right operand that is encoded for 64 rows or more."""


@pytest.mark.parametrize("protocol", ["trio", "replicated", "quad"])
@pytest.mark.parametrize("ring", [RING32, RING64], ids=["32", "64"])
@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (PADDED, ((1, 64, 2, 2), (48, 64, 3, 3))),
        (PADDED, ((2, 48, 17, 18), (48, 48, 3, 3))),
        (PADDED, ((1, 2, 9, 9), (3, 2, 3, 3))),
        (GROUPED, ((1, 96, 5, 5), (32, 24, 3, 3))),
        (MATMUL, ((1, 40), (40, 30))),
        (MATMUL, ((24, 40), (40, 30))),
        (MATMUL, ((2, 12, 40), (40, 30))),
        (MATMUL, ((40,), (40, 30))),
        (MATMUL, ((3, 5, 8), (3, 8, 7))),
    ],
)
def test_same_products(protocol, ring, op, shapes):
    left = [ring_tensor(ring, shapes[0], seed) for seed in range(4)]
    right = ring_tensor(ring, shapes[1], 9)

    def main(session):
        p = session.protocol
        y = p.share(right, 0)
        return [p.reveal(p.bilinear(op, p.share(x, 1), y)) for x in left]

    parties = 4 if protocol == "quad" else 3
    found = tacit.run(main, protocol=protocol, parties=parties, ring=ring.bits, fraction_bits=8)
    for products in found:
        for x, product in zip(left, products, strict=True):
            assert torch.equal(product, op(x, right))


def test_large_right_operands_are_read_once_for_two_left_ones():
    """Shapes of the test above are of both kinds."""
    assert PADDED.stacks((1, 64, 2, 2), (48, 64, 3, 3))
    assert not PADDED.stacks((2, 48, 17, 18), (48, 48, 3, 3))
    assert MATMUL.stacks((1, 40), (40, 30))
    assert not MATMUL.stacks((24, 40), (40, 30))
    assert not MATMUL.stacks((40,), (40, 30))


@pytest.mark.parametrize("limit", [None, 1 << 12])
def test_offloaded_products(limit):
    """tests/gpu offloads to a GPU; here the CPU stands for it."""
    cpu = torch.device("cpu")
    executor = ProductExecutor(budget=1 << 20, memory_limit=limit, offload=cpu)
    y, z = ring_tensor(RING64, (40, 300), 1), ring_tensor(RING64, (40, 300), 2)
    for seed in range(3, 6):
        x = ring_tensor(RING64, (9, 40), seed)
        assert executor.sum(MATMUL, [(x, [y, z])]).equal(MATMUL(x, y + z))
    assert executor.cache.num_bytes


@pytest.mark.usefixtures("encoding")
@PROTOCOLS
def test_kept_from_the_second_use_on(protocol):
    x, y = ring_tensor(RING64, (64, SIZE), 1), ring_tensor(RING64, (SIZE, SIZE), 2)
    all_gone = Barrier(3, timeout=30)

    def main(session):
        p, kept = session.protocol, []
        cached, a, b = p.context.products.cache, p.share(x, 0), p.share(y, 1)
        for _ in range(4):
            p.matmul(a, b.transpose(0, 1))  # a new view each time
            kept.append(cached.num_bytes)
        again = b.scaled(1)  # the same secret, other parts
        p.matmul(a, again.transpose(0, 1))
        kept.append(cached.num_bytes)
        del b, again
        gc.collect()
        all_gone.wait()  # parties in one process may have parts in common
        p.matmul(a, p.share(y.t().contiguous(), 1))
        return [*kept, cached.num_bytes]

    for first, second, third, fourth, other, end in tacit.run(main, protocol=protocol):
        assert first == 0 < second == third == fourth == other
        assert end == 0


@pytest.mark.usefixtures("encoding")
@PROTOCOLS
def test_models_after_a_step(protocol):
    """Weights that an optimizer changed are not taken from the cache."""
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 64, 8)
    )
    inputs, state = torch.randn(4, 64, 8, 8), {k: v.clone() for k, v in model.state_dict().items()}

    def program(session, model, inputs):
        optimizer, results = torch.optim.SGD(model.parameters(), lr=0.1), []
        for _ in range(2):
            with torch.no_grad():
                results += [model(inputs) for _ in range(3)]
            optimizer.zero_grad()
            (model(inputs) ** 2).mean().backward()
            optimizer.step()
        return [session.reveal(y) if session else y for y in results]

    def main(session):
        own = nn.Sequential(
            nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 64, 8)
        )
        own.load_state_dict(state)
        found = program(session, session.share(own, 0), session.share(inputs, 1))
        assert session.protocol.context.products.cache.num_bytes > 0
        return found

    want = program(None, model, inputs)
    assert not torch.allclose(want[0], want[-1], atol=1e-2)
    for found in tacit.run(main, protocol=protocol):
        for one, expected in zip(found, want, strict=True):
            torch.testing.assert_close(one, expected, atol=2e-3, rtol=0)


def products(executor: ProductExecutor, operands, times: int = 1) -> None:
    left = ring_tensor(RING64, (64, SIZE), 0)
    for _ in range(times):
        for parts in operands:
            expected = MATMUL(left, sum(parts[1:], parts[0]))
            assert torch.equal(executor.sum(MATMUL, [(left, parts)]), expected)


@pytest.mark.usefixtures("encoding")
def test_budget():
    """Operands that do not fit are not kept; those that fit stay while others are used in turn."""
    operands = [[ring_tensor(RING64, (SIZE, SIZE), seed)] for seed in range(1, 6)]
    one = MATMUL.plan([ring_tensor(RING64, (64, SIZE), 0)], operands[0][0]).num_bytes
    executor = ProductExecutor(budget=3 * one)
    products(executor, operands, 2)
    assert executor.cache.num_bytes == 3 * one
    before = list(executor.cache._kept)
    products(executor, operands, 3)
    assert list(executor.cache._kept) == before
    products(executor, operands[3:], 2)  # the others are the least recently used ones now
    assert executor.cache.num_bytes == 3 * one
    assert next(iter(executor.cache._kept)) == before[2]
    small = ProductExecutor(budget=one - 1)
    products(small, operands, 3)
    assert small.cache.num_bytes == 0
    none = ProductExecutor(budget=0)
    products(none, operands, 3)
    assert none.cache.num_bytes == 0 == len(none.cache._seen)


@pytest.mark.parametrize("rows", [1, 64])
def test_dropped_with_its_parts(rows):
    executor = ProductExecutor()
    left = ring_tensor(RING64, (rows, SIZE), 0)
    parts = [ring_tensor(RING64, (SIZE, SIZE), seed) for seed in (1, 2)]
    for _ in range(3):
        executor.sum(MATMUL, [(left, parts), (left, parts[:1])])
    assert executor.cache.num_bytes > 0
    parts = [ring_tensor(RING64, (SIZE, SIZE), seed) for seed in (3, 4)]
    executor.sum(MATMUL, [(left, parts), (left, parts[:1])])
    assert executor.cache.num_bytes == 0


def test_parts_that_were_written_to_are_not_reused():
    executor, part = ProductExecutor(), ring_tensor(RING64, (SIZE, SIZE), 1)
    products(executor, [[part]], 3)
    part.add_(1)
    products(executor, [[part]], 3)
    with torch.inference_mode():
        products(executor, [[part.t()]], 3)
        products(executor, [[part + 1]], 3)


def test_sums_of_plain_operands_are_kept():
    executor, left = ProductExecutor(), ring_tensor(RING64, (1, 64), 0)
    parts = [ring_tensor(RING64, (64, 64), seed) for seed in (1, 2)]
    for _ in range(3):
        found = executor.sum(MATMUL, [(left, parts), (left, parts[1:])])
        assert torch.equal(found, MATMUL(left, parts[0] + 2 * parts[1]))
    assert executor.cache.num_bytes == 64 * 64 * 8


@pytest.mark.usefixtures("encoding")
def test_few_are_remembered(monkeypatch):
    monkeypatch.setattr(cache, "MAX_SEEN", 3)
    executor = ProductExecutor()
    operands = [[ring_tensor(RING64, (SIZE, SIZE), seed)] for seed in range(1, 6)]
    products(executor, operands)
    assert len(executor.cache._seen) == 3


def budget(session) -> int:
    return session.protocol.context.products.cache.budget


@pytest.mark.parametrize(("parties", "each"), [(2, 1024), (3, 1024), (8, 4096 / 9)])
def test_members_of_one_process_keep_four_gib_at_most(monkeypatch, parties, each):
    monkeypatch.delenv(BUDGET_VARIABLE, raising=False)
    budgets = tacit.run(budget, protocol="additive", parties=parties)
    assert budgets == [int(each * 2**20)] * parties


def test_budget_from_the_environment(monkeypatch):
    monkeypatch.setenv(BUDGET_VARIABLE, "3")
    assert OperandCache().budget == 3 << 20
    monkeypatch.setenv(BUDGET_VARIABLE, "much")
    with pytest.raises(ConfigError, match="TACIT_KEEP_MIB"):
        OperandCache()
