"""Operands that are used again are sent once; a tensor that changed is sent anew."""

from __future__ import annotations

import gc

import pytest
import torch
from tests.enclave.products import integers
from tests.enclave.workers import outsourcer, recording
from torch import nn

from tacit.enclave import worker
from tacit.enclave.trusted.masking import Operand
from tacit.enclave.trusted.operand_cache import OperandCache
from tacit.protocols.products.bilinear import MATMUL, Conv, ConvGradInput, ConvGradWeight
from tacit.ring import Window

N = 8
FLOATS = [integers((N, N), 8, seed) for seed in range(4)]


@pytest.fixture
def enclave():
    with outsourcer("three-server") as made:
        yield made


def sent(enclave, a, b) -> int:
    """How many operands are sent for a product, which is right."""
    before = enclave.counters.total.bytes_sent
    assert torch.equal(enclave.product(MATMUL, a, b), a @ b)
    return (enclave.counters.total.bytes_sent - before) // (2 * 4 * N * N)


def test_a_tensor_is_sent_once(enclave):
    a, b, c = FLOATS[:3]
    assert [sent(enclave, a, b), sent(enclave, a, b), sent(enclave, b, a)] == [2, 0, 0]
    assert [sent(enclave, a, c), sent(enclave, c, c)] == [1, 0]


def test_a_product_with_itself(enclave):
    assert sent(enclave, FLOATS[0], FLOATS[0]) == 1


def test_a_step_of_training(enclave):
    """Each of x, weight and gradient takes part in two products, and is sent for one."""
    window = Window.make(2, 1, 1)
    x, weight = integers((4, 3, 6, 6), 8, 1), integers((5, 3, 3, 3), 8, 2)
    grad = integers((4, 5, 6, 6), 8, 3)
    steps = [
        (Conv(window), x, weight),
        (ConvGradWeight(window, tuple(weight.shape)), x, grad),
        (ConvGradInput(window, tuple(x.shape)), weight, grad),
    ]
    for op, a, b in steps:
        assert torch.equal(enclave.product(op, a, b), op(a.long(), b.long()).double())
    total = x.numel() + weight.numel() + grad.numel()
    assert enclave.counters.total.bytes_sent == 2 * 4 * total


def test_a_tensor_that_was_written_to_is_sent_again(enclave):
    a, b = FLOATS[0].clone(), FLOATS[1]
    sent(enclave, a, b)
    a[3, 4] += 1
    assert [sent(enclave, a, b), sent(enclave, a, b)] == [1, 0]


def test_writes_that_torch_does_not_count_are_noticed(enclave):
    a, b = nn.Parameter(FLOATS[0].clone()), FLOATS[1]
    with torch.no_grad():
        sent(enclave, a, b)
        version = a._version
        a.data[3, 4] += 1
        assert a._version == version
        assert sent(enclave, a, b) == 1


def test_a_new_tensor_in_the_same_memory_is_another_one(enclave):
    a, b = FLOATS[0].clone(), FLOATS[1]
    address = a.data_ptr()
    for _ in range(5):
        assert sent(enclave, a, b) >= 1
        del a
        gc.collect()
        a = FLOATS[0].clone()
        if a.data_ptr() == address:
            break
    assert sent(enclave, a, b) == 1


def test_equal_contents_are_not_recognised(enclave):
    """Workers must not learn that two tensors are equal."""
    a, b = FLOATS[:2]
    sent(enclave, a, b)
    assert sent(enclave, a.clone(), b) == 1


def test_views_are_operands_of_their_own(enclave):
    a, b = FLOATS[:2]
    sent(enclave, a, b)
    assert [sent(enclave, a.T, b), sent(enclave, a.T, b)] == [1, 0]
    wide = integers((N, 2 * N), 8, 5)
    assert [sent(enclave, wide[:, ::2], b), sent(enclave, wide[:, ::2], b)] == [1, 1]  # has gaps
    with torch.inference_mode():
        assert [sent(enclave, a + 0, b), sent(enclave, a * 1, b)] == [1, 1]


def test_old_operands_leave_at_the_budget():
    with outsourcer("three-server", kept_bytes=3 * N * N) as enclave:
        a, b, c, d = FLOATS
        assert [sent(enclave, *pair) for pair in ((a, b), (c, a), (d, a))] == [2, 1, 1]
        assert [sent(enclave, *pair) for pair in ((c, d), (b, c))] == [0, 1]


def test_without_a_budget_nothing_is_kept():
    with outsourcer("three-server", kept_bytes=0) as enclave:
        a, b = FLOATS[:2]
        assert [sent(enclave, a, b), sent(enclave, a, b)] == [2, 2]


def test_workers_forget_what_the_enclave_forgets(monkeypatch):
    made = []

    class Watched(worker.Worker):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(worker, "Worker", Watched)
    seen: list[torch.Tensor] = []
    with outsourcer("two-server", kept_bytes=4 * N * N, serve={0: recording(seen)}) as enclave:
        for i in range(20):
            sent(enclave, integers((N, N), 8, i), integers((N, N), 8, 100 + i))
        assert len(seen) == 40
        assert [len(one._kept) for one in made] == [2, 2]


def test_an_operand_that_exceeds_the_budget_is_not_kept():
    cache = OperandCache(10)
    x = torch.ones(11)
    made = []

    def make():
        made.append(Operand(len(made), torch.zeros(11, dtype=torch.int8), 0))
        return made[-1]

    assert cache.get(x, 0, make) is not cache.get(x, 0, make)
    assert cache.forgotten() == (0, 1)
    assert cache.forgotten() == ()
