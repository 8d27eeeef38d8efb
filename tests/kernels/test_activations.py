"""What follows a product in one pass: torch's operations one after the other, bit for bit."""

from __future__ import annotations

from math import inf, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import seeds
from tests.tiers import draws

from tacit.kernels import backend
from tacit.kernels.activations import Bias, finish_product, max_pool2x2, max_pool2x2_backward
from tacit.ring.reference import activations as reference

sides = st.sampled_from([2, 3, 4, 7, 8, 32, 33, 300])
images = st.tuples(st.integers(1, 3), st.integers(1, 5), sides, sides)
SPECIAL = torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 1e-40, 3e38])


def same_bits(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    if found.dtype == torch.float32:
        found, wanted = (one.contiguous().view(torch.int32) for one in (found, wanted))
    return found.dtype == wanted.dtype and torch.equal(found, wanted)


def integers(shape, dtype, seed):
    """Integers of all lengths, many of them 0 or equal to their neighbours."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(2, 32 if dtype == torch.int32 else 62, shape, generator=generator)
    drawn = torch.randint(-(2**62), 2**62, shape, generator=generator) >> (63 - bits)
    return torch.where(drawn % 5 == 0, torch.zeros_like(drawn), drawn).to(dtype)


def floats(shape, seed):
    """Numbers of which many are equal, infinite, not a number or signed zeros."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    kind = torch.randint(4, shape, generator=generator)
    drawn = SPECIAL[torch.randint(len(SPECIAL), shape, generator=generator)]
    return torch.where(kind == 0, drawn, torch.where(kind == 1, x.round(), x))


@draws(60)
@given(
    shape=st.one_of(images, st.tuples(sides, sides), st.tuples(sides)),
    dtype=st.sampled_from([torch.int32, torch.int64]),
    exponent=st.integers(-120, 120),
    relu=st.booleans(),
    has_bias=st.booleans(),
    seed=seeds,
)
def test_products_are_finished_as_by_torch(shape, dtype, exponent, relu, has_bias, seed):
    x = integers(shape, dtype, seed)
    dim = 1 if len(shape) > 1 else 0
    bias = Bias(floats((shape[dim],), seed) * 2.0 ** max(exponent, -100), dim) if has_bias else None
    wanted = x.float() * 2.0**exponent
    if bias is not None:
        wanted = wanted + bias.values.view(-1, *(1 for _ in shape[dim + 1 :]))
    wanted = torch.relu(wanted) if relu else wanted
    assert same_bits(finish_product(x, exponent, bias, relu=relu), wanted)


@draws(60)
@given(images, seeds)
def test_max_pooling_is_that_of_torch(shape, seed):
    x = floats(shape, seed)
    wanted, places = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    found = max_pool2x2(x)
    assert same_bits(found.values, wanted)
    assert same_bits(found.places, places)


@draws(60)
@given(images, seeds)
def test_the_gradient_through_relu_is_that_of_torch(shape, seed):
    x = torch.relu(floats(shape, seed))
    pooled, places = reference.max_pool2x2(x)
    grad = floats(pooled.shape, seed + 1)
    by_pool = torch.ops.aten.max_pool2d_with_indices_backward(grad, x, *reference.WINDOW, places)
    assert same_bits(max_pool2x2_backward(grad, x, places), by_pool)
    wanted = torch.ops.aten.threshold_backward(by_pool, x, 0)
    assert same_bits(max_pool2x2_backward(grad, x, places, pooled), wanted)


def test_what_is_not_contiguous_or_no_float32_is_left_to_torch():
    x = floats((2, 3, 8, 6), 1)
    for other in (x.transpose(2, 3), x.double(), x.to(memory_format=torch.channels_last)):
        wanted, places = torch.nn.functional.max_pool2d(other, 2, return_indices=True)
        found = max_pool2x2(other)
        assert torch.equal(found.values.nan_to_num(), wanted.nan_to_num())
        assert torch.equal(found.places, places)


@pytest.mark.skipif(backend.compiled() is None, reason="the reference is forced")
def test_kernels_use_all_threads_on_planes_and_rows():
    """Many planes, many rows, and one long plane: every range is written once."""
    for shape in [(300, 40, 8, 8), (3000, 70), (1, 1, 700, 500), (200_003,)]:
        x = integers(shape, torch.int32, 7)
        bias = Bias(floats((shape[1],), 8), 1) if len(shape) > 1 else None
        wanted = reference.finish(x, -3, bias and bias.like(x.shape), relu=True)
        assert same_bits(finish_product(x, -3, bias, relu=True), wanted)
