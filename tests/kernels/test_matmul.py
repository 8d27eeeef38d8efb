"""Exact products against big integers and the reference, bit for bit."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensors, rings
from tests.tiers import draws

from tacit import kernels
from tacit.errors import ConfigError
from tacit.ring import RING32, RING64, Ring
from tacit.ring.reference import arithmetic

METHODS = ("choose", "plain", "encoded")
size = st.sampled_from([0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65])


def big_matmul(a: torch.Tensor, b: torch.Tensor, ring: Ring) -> torch.Tensor:
    """Through Python integers: no wrapping until the end."""
    exact = a.numpy().astype(object) @ b.numpy().astype(object)
    wrapped = [ring.wrap(int(v)) for v in np.ravel(exact)]
    return torch.tensor(wrapped, dtype=ring.dtype).reshape(np.shape(exact))


@draws(60)
@given(ring=rings, m=size, k=size, n=size, method=st.sampled_from(METHODS), data=st.data())
def test_equals_big_integers(ring, m, k, n, method, data):
    a = data.draw(ring_tensors(ring, (m, k)))
    b = data.draw(ring_tensors(ring, (k, n)))
    found = kernels.matmul(a, b, method=method)
    if m * n and k:
        assert torch.equal(found, big_matmul(a, b, ring))
    else:
        assert torch.equal(found, torch.zeros(m, n, dtype=ring.dtype))


@draws(60)
@given(
    ring=rings,
    shapes=st.sampled_from(
        [
            ((5,), (5,)),
            ((5,), (5, 3)),
            ((4, 5), (5,)),
            ((2, 4, 5), (5, 3)),
            ((2, 4, 5), (2, 5, 3)),
            ((2, 1, 4, 5), (3, 5, 6)),
            ((1, 17, 20), (6, 20, 9)),
            ((0, 4, 5), (5, 3)),
            ((2, 3, 0), (0, 4)),
            ((2, 3, 0), (0,)),
            ((2, 0, 5), (5, 3)),
            ((2, 4, 5), (5,)),
            ((3, 1, 70, 40), (1, 2, 40, 66)),
        ]
    ),
    method=st.sampled_from(METHODS),
    data=st.data(),
)
def test_batches_broadcast_and_strides(ring, shapes, method, data):
    a, b = (data.draw(ring_tensors(ring, s)) for s in shapes)
    assert torch.equal(kernels.matmul(a, b, method=method), arithmetic.matmul(a, b))


@pytest.mark.parametrize("ring", [RING32, RING64])
@pytest.mark.parametrize("value", ["low", "high", "minus_one"])
@pytest.mark.parametrize("k", [2047, 2048, 2049, 8192, 8193, 20000])
def test_extreme_sums_over_long_inner_dimensions(ring, value, k):
    """All elements at the edge, so that every partial sum is as large as it can be."""
    extreme = {"low": ring.low, "high": ring.high, "minus_one": -1}[value]
    a = torch.full((9, k), extreme, dtype=ring.dtype)
    b = torch.full((k, 3), ring.low, dtype=ring.dtype)
    b[0] = ring.high
    expected = ring.wrap(extreme * (ring.low * (k - 1) + ring.high))
    found = kernels.matmul(a, b, method="encoded")
    assert torch.equal(found, torch.full((9, 3), expected, dtype=ring.dtype))


@pytest.mark.parametrize("ring", [RING32, RING64])
def test_worst_residues(ring):
    """Elements whose residues are all at the edge of a byte in one modulus or another."""
    products = [256, 255 * 253, 251 * 247 * 241, 239 * 233 * 229 * 227]
    values = [ring.wrap(p // 2 + d) for p in products for d in (-1, 0, 1)]
    a = torch.tensor(values * 40, dtype=ring.dtype).reshape(16, -1)
    b = a.flip(0).T.contiguous()
    assert torch.equal(kernels.matmul(a, b, method="encoded"), big_matmul(a, b, ring))


@pytest.mark.parametrize("ring", [RING32, RING64])
def test_shapes_beyond_the_outer_blocks(ring):
    generator = torch.Generator().manual_seed(7)
    for m, k, n in ((1030, 33, 70), (20, 40, 2060), (70, 4200, 66)):
        a = torch.randint(ring.low, ring.high, (m, k), dtype=ring.dtype, generator=generator)
        b = torch.randint(ring.low, ring.high, (k, n), dtype=ring.dtype, generator=generator)
        expected = torch.from_numpy(a.numpy() @ b.numpy())
        assert torch.equal(kernels.matmul(a, b, method="encoded"), expected)


@pytest.mark.parametrize("k", [1, 3, 4, 5, 8, 801])
def test_few_rows_times_a_transposed_matrix(k):
    """As of a linear layer: dot products of contiguous words, four columns at a time on ARM."""
    generator = torch.Generator().manual_seed(k)
    for m, n in ((1, 1), (1, 3), (1, 4), (1, 9), (2, 5), (4, 12)):
        a, b = (
            torch.randint(RING64.low, RING64.high, (rows, k), generator=generator)
            for rows in (m, n)
        )
        a[0, 0], b[-1, -1] = RING64.low, -1
        expected = big_matmul(a, b.T, RING64)
        assert torch.equal(kernels.matmul(a, b.T, method="plain"), expected)
        assert torch.equal(kernels.matmul(a.T.contiguous().T, b.T, method="plain"), expected)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_agree(threads):
    before = kernels.num_threads()
    a = torch.arange(200 * 150, dtype=torch.int64).reshape(200, 150) * 0x9E3779B97F4A7C1
    try:
        kernels.set_num_threads(threads)
        assert torch.equal(kernels.matmul(a, a.T, method="encoded"), a @ a.T)
    finally:
        kernels.set_num_threads(before)


def test_forced_reference(force_reference):
    force_reference()
    a = torch.arange(6).reshape(2, 3)
    assert torch.equal(kernels.matmul(a, a.T), a @ a.T)


def test_bad_input():
    a = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(ConfigError, match="3 != 2"):
        kernels.matmul(a, a)
    with pytest.raises(ConfigError, match="int32"):
        kernels.matmul(a, a.T.int())
    with pytest.raises(ConfigError, match="float32"):
        kernels.matmul(a.float(), a.T.float())
    with pytest.raises(ConfigError, match="broadcast"):
        kernels.matmul(a.expand(2, 2, 3), a.T.expand(3, 3, 2))
    with pytest.raises(ConfigError, match="method"):
        kernels.matmul(a, a.T, method="magic")
