"""Weighted sums along an axis: against Python's integers, and the reference bit for bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import seeds
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.kernels.contraction import MOST_BITS, MOST_ROWS, PRIME, contract, join_limbs
from tacit.ring.reference import contraction as reference

ENDS = {torch.int8: 1 << 7, torch.int32: 1 << 31}
EACH_DTYPE = pytest.mark.parametrize("dtype", ENDS)
sizes = st.sampled_from([1, 2, 3, 4, 5, 7, 16, 63])


def drawn(shape, dtype, seed):
    """Values and factors, of which a third are the largest and the smallest ones."""
    generator, end = torch.Generator().manual_seed(seed), ENDS[dtype]
    x = torch.randint(-end, end, shape, generator=generator).to(dtype)
    factors = torch.randint(0, 1 << 15, (3, shape[1]), generator=generator, dtype=torch.int32)
    for tensor, low, high in ((x, -end, end - 1), (factors, 0, (1 << 15) - 1)):
        pick = torch.randint(6, tensor.shape, generator=generator)
        tensor[pick == 0], tensor[pick == 1] = low, high
    return x, factors


@EACH_DTYPE
def test_against_big_integers(dtype):
    x, factors = drawn((2, 5, 3), dtype, 1)
    found = contract(x, factors)
    for m, o, i in torch.cartesian_prod(*map(torch.arange, found.shape)).tolist():
        pairs = zip(factors[m].tolist(), x[o, :, i].tolist(), strict=True)
        assert int(found[m, o, i]) == sum(f * v for f, v in pairs)


@draws(200)
@given(sizes, st.sampled_from([1, 2, 4, 9, 255, 256, 257, 700]), st.integers(1, 3), seeds)
def test_against_the_reference(outer, rows, inner, seed):
    for dtype in ENDS:
        x, factors = drawn((outer, rows, inner), dtype, seed)
        assert torch.equal(contract(x, factors), reference.contract(x, factors))


@EACH_DTYPE
@pytest.mark.parametrize("inner", [511, 512, 513, 1500])
def test_long_lines(dtype, inner):
    x, factors = drawn((3, 37, inner), dtype, inner)
    assert torch.equal(contract(x, factors), reference.contract(x, factors))


@EACH_DTYPE
@pytest.mark.parametrize("inner", [1, 2])
def test_the_largest_sums(dtype, inner):
    x = torch.full((1, MOST_ROWS, inner), -ENDS[dtype], dtype=dtype)
    factors = torch.full((3, MOST_ROWS), (1 << 15) - 1, dtype=torch.int32)
    assert (contract(x, factors) == -ENDS[dtype] * ((1 << 15) - 1) * MOST_ROWS).all()


@EACH_DTYPE
def test_strides(dtype):
    x, factors = drawn((4, 6, 10), dtype, 3)
    for view in (x.movedim(2, 1), x[:, :, ::2], x[::2]):
        some = factors.repeat(1, 2)[:, ::2][:, : view.shape[1]].repeat(1, 2)[:, : view.shape[1]]
        assert torch.equal(contract(view, some), reference.contract(view, some))


@pytest.mark.parametrize(
    ("x", "factors"),
    [
        (torch.zeros(1, 2, 3), torch.zeros(3, 2, dtype=torch.int32)),
        (torch.zeros(2, 3, dtype=torch.int8), torch.zeros(3, 2, dtype=torch.int32)),
        (torch.zeros(1, 2, 3, dtype=torch.int8), torch.zeros(3, 3, dtype=torch.int32)),
        (torch.zeros(1, 2, 3, dtype=torch.int8), torch.zeros(3, 2, dtype=torch.int64)),
        (
            torch.zeros(1, MOST_ROWS + 1, 1, dtype=torch.int8),
            torch.zeros(3, MOST_ROWS + 1, dtype=torch.int32),
        ),
    ],
)
def test_other_operands_are_refused(x, factors):
    with pytest.raises(ConfigError):
        contract(x, factors)


def test_nothing_to_add():
    for shape in ((0, 4, 2), (2, 4, 0), (2, 0, 3)):
        x = torch.zeros(shape, dtype=torch.int8)
        found = contract(x, torch.zeros(3, shape[1], dtype=torch.int32))
        assert found.shape == (3, shape[0], shape[2])
        assert not found.any()


# Every residue that a reduction treats apart, and the ends of 64 bits.
EDGES = [0, 1, -1, PRIME - 1, PRIME, PRIME + 1, -PRIME, 2 * PRIME, -(1 << 63), (1 << 63) - 1]


def limbs_of(count, seed):
    """64-bit integers, of which a third are EDGES."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-(1 << 63), (1 << 63) - 1, (3, count), generator=generator)
    picked = torch.tensor(EDGES)[torch.randint(len(EDGES), x.shape, generator=generator)]
    return torch.where(torch.randint(3, x.shape, generator=generator) == 0, picked, x)


@draws(60)
@given(st.sampled_from([1, 2, 7, 64, 1001]), st.sampled_from([0, 1, 15, 21, MOST_BITS]), seeds)
def test_joined_limbs_are_those_of_big_integers(count, bits, seed):
    limbs = limbs_of(count, seed)
    found = join_limbs(limbs, bits)
    columns = zip(*limbs.tolist(), strict=True)
    assert found.tolist() == [sum(x << bits * i for i, x in enumerate(c)) % PRIME for c in columns]
    assert torch.equal(found, reference.join_limbs(limbs, bits))


def test_joined_limbs_in_any_layout():
    limbs = limbs_of(40_000, 1).view(3, 100, 400).transpose(1, 2)
    assert torch.equal(join_limbs(limbs, 15), reference.join_limbs(limbs, 15))
    assert join_limbs(limbs[:, :0], 15).shape == (0, 100)
    for wrong, bits in ((limbs[:2], 15), (limbs.int(), 15), (limbs, MOST_BITS + 1), (limbs, -1)):
        with pytest.raises(ConfigError):
            join_limbs(wrong, bits)
