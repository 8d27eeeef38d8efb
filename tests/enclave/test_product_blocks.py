"""Outsourced products in a limited memory: in blocks, and bit for bit those without a limit."""

from __future__ import annotations

from math import prod
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.enclave.products import cases
from tests.enclave.workers import OUTSOURCED, changing, outsourcer, two_enclaves
from tests.kernels.draws import ring_tensor
from tests.tiers import draws

from tacit.enclave.mask_keys import MaskKeys
from tacit.enclave.trusted.host_storage import MemoryStorage
from tacit.enclave.trusted.product_blocks import LEFT, RESULT, RIGHT, Cut
from tacit.enclave.trusted.sealed_memory import SealedMemory
from tacit.errors import CheatingDetected, OutOfMemory, RangeError
from tacit.protocols.products.bilinear import MATMUL, Conv, ConvGradInput, ConvGradWeight
from tacit.ring import RING64, Window

LIMIT = 1 << 21
WINDOW = Window.make(2, 1, 1)
IMAGE, WEIGHT = (40, 8, 20, 20), (12, 8, 3, 3)
OUTPUT = WINDOW.output_shape(IMAGE, WEIGHT)
LARGE = {
    "conv": (Conv(WINDOW), IMAGE, WEIGHT),
    "conv_grad_input": (ConvGradInput(WINDOW, IMAGE), WEIGHT, OUTPUT),
    "conv_grad_weight": (ConvGradWeight(WINDOW, WEIGHT), IMAGE, OUTPUT),
    "rows": (MATMUL, (1500, 60), (60, 40)),
    "columns": (MATMUL, (40, 60), (60, 1500)),
    "inner": (MATMUL, (30, 6000), (6000, 30)),
    "batches": (MATMUL, (50, 30, 40), (50, 40, 30)),
    "one right matrix": (MATMUL, (50, 30, 40), (40, 30)),
}
EACH = pytest.mark.parametrize("name", LARGE)


def floats(name):
    op, *shapes = LARGE[name]
    generator = torch.Generator().manual_seed(5)
    return op, *(torch.randn(shape, generator=generator) for shape in shapes)


def memory_of(limit=LIMIT):
    return SealedMemory(MemoryStorage(), limit=limit, measurement=bytes(32))


def adopted(memory, *tensors):
    for one in tensors:
        memory.adopt(one, "a test")
    return tensors


@draws(200)
@given(cases(), st.integers(1, 400), st.integers(0, 1000))
def test_blocks_make_up_the_product(case, room, seed):
    op, *shapes = case
    a, b = (ring_tensor(RING64, shape, seed + i) for i, shape in enumerate(shapes))
    found = torch.zeros(op.shape(*shapes), dtype=torch.int64)
    cut, sizes = Cut(op, *shapes), []

    def elements(op, a, b):
        return prod(a) + prod(b) + prod(op.shape(a, b))

    least = cut.fit(elements, room)
    for blocks in cut.blocks():
        for block in blocks:
            left, right = block.part(LEFT, a), block.part(RIGHT, b)
            block.part(RESULT, found).add_(block.op(left, right))
            sizes.append(elements(block.op, left.shape, right.shape))
    assert torch.equal(found, op(a, b))
    assert max(sizes) == least
    if least > room:  # nothing is left to cut
        assert all(length == 1 for length in cut._lengths)


@EACH
@pytest.mark.parametrize("precision", ["swalp", "fixed"])
def test_products_are_those_without_a_limit(name, precision):
    """In two calls: the second one finds operands of the first."""
    op, a, b = floats(name)
    with outsourcer("three-server", precision=precision) as enclave:
        wanted = [enclave.product(op, a, b) for _ in range(2)]
    with memory_of() as memory, outsourcer("three-server", precision=precision, memory=memory) as e:
        adopted(memory, a, b)
        found = [memory.read("test", e.product(op, a, b)) for _ in range(2)]
        counted = memory.counters()
    assert e._number > 2, "it was not cut"
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
    assert counted.peak <= LIMIT


@pytest.mark.parametrize("mode", OUTSOURCED)
def test_every_mode_computes_blocks(mode):
    op, a, b = floats("conv_grad_weight")
    with outsourcer(mode) as enclave:
        wanted = enclave.product(op, a, b)
    with memory_of() as memory, outsourcer(mode, memory=memory) as enclave:
        adopted(memory, a, b)
        assert torch.equal(memory.read("test", enclave.product(op, a, b)), wanted)
        assert enclave._number > 1


def test_two_enclaves_cut_alike():
    op, a, b = floats("conv")

    def program(enclave):
        with memory_of() as memory:
            enclave._memory = enclave._operands._memory = enclave._parts._memory = memory
            adopted(memory, *(one.clone() for one in (a, b)))
            return memory.read("test", enclave.product(op, a, b))

    one, other = two_enclaves("three-server", program)
    with outsourcer("three-server") as enclave:
        assert torch.equal(one, enclave.product(op, a, b))
    assert torch.equal(one, other)


def test_operands_in_another_order():
    """The transposed gradient of a linear layer, half precision, and a product with itself."""
    x, grad = torch.randn(900, 60), torch.randn(900, 90)
    half, square = torch.randn(800, 60).half(), torch.randn(160, 160)
    pairs = [(grad.T, x), (half, x[:60].half()), (square, square), (x[::2], x[:60])]
    with outsourcer("three-server") as enclave:
        wanted = [enclave.product(MATMUL, *pair) for pair in pairs]
    with memory_of(1 << 20) as memory, outsourcer("three-server", memory=memory) as enclave:
        adopted(memory, x, grad, half, square)
        for pair, one in zip(pairs, wanted, strict=True):
            found = memory.read("test", enclave.product(MATMUL, *pair))
            assert found.dtype == one.dtype
            assert torch.equal(found, one)


def test_no_mask_hides_two_parts():
    seen = []
    masked = MaskKeys.masked

    def noted(self, number, values, *args, **options):
        seen.append(number)
        return masked(self, number, values, *args, **options)

    with (
        patch.object(MaskKeys, "masked", noted),
        memory_of() as memory,
        outsourcer("two-server", memory=memory) as enclave,
    ):
        for name in LARGE:
            op, a, b = floats(name)
            adopted(memory, a, b)
            enclave.product(op, a, b)
    assert len(seen) > 4 * len(LARGE)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("liar", [0, 1, 2])
def test_a_lie_in_one_block_is_noticed(liar):
    """The third answer alone is wrong, in one element."""
    op, a, b = floats("conv")
    answers = []

    def change(answer):
        answers.append(answer)
        if len(answers) == 3:
            answer.view(-1)[-1] += 1 << 20
        return answer

    with (
        memory_of() as memory,
        outsourcer("three-server", serve={liar: changing(change)}, memory=memory) as enclave,
    ):
        adopted(memory, a, b)
        with pytest.raises(CheatingDetected) as caught:
            enclave.product(op, a, b)
    assert caught.value.subject == f"worker {liar}"
    assert len(answers) == 3


def test_what_cannot_be_cut_far_enough_is_refused():
    window = Window.make(2, 1, 1, 1, 2)  # groups: cut along images alone
    a, b = torch.randn(2, 8, 160, 160), torch.randn(8, 4, 3, 3)
    with memory_of() as memory, outsourcer("three-server", memory=memory) as enclave:
        adopted(memory, a, b)
        with pytest.raises(OutOfMemory, match=r"Conv needs \d+ bytes.*memory_limit leaves"):
            enclave.product(Conv(window), a, b)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(value):
    op, a, b = floats("rows")
    a[-1, -1] = value
    with memory_of() as memory, outsourcer("three-server", memory=memory) as enclave:
        adopted(memory, a, b)
        with pytest.raises(RangeError, match="not finite"):
            enclave.product(op, a, b)
