"""Compiled sums of waves, bit for bit those that torch computes operation by operation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds
from tests.tiers import draws

from tacit.kernels import backend, waves
from tacit.kernels.levels import load_level, usable_levels
from tacit.ring import ring_of

shapes = st.sampled_from([(0,), (1,), (3, 43), (2, 64), (5, 200)])
factors = st.floats(-4, 4)


class Kernels:
    """The compiled kernels of a level, for `native_replaced`."""

    def __init__(self, level):
        self._native = load_level(level)

    def __getattr__(self, name):
        return getattr(self._native, name)

    def hold(self, tensor):
        """Does nothing: the tests hold their tensors."""


def by_torch(call, *args, **options):
    """The same function where no kernel is compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waves, "native_for", lambda *_: None)
        return call(*args, **options)


@draws(60)
@given(rings, shapes, seeds, st.integers(1, 9), st.booleans(), st.booleans(), st.data())
def test_dealt_waves(ring, shape, seed, count, has_factor, at_once, data):
    period = data.draw(st.integers(1, ring.bits))
    bits = data.draw(st.integers(0, ring.bits - 2))
    v, factor = (ring_tensor(ring, shape, seed + i) for i in range(2))
    pad = ring_tensor(ring, (count, 4 if has_factor else 2, *shape), seed + 2)
    options = {"period_bits": period, "fraction_bits": bits}
    options["factor"] = factor[..., :1] if has_factor else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waves, "AT_ONCE", 1 << 14 if at_once else -1)
        expected = by_torch(waves.deal_waves, v, pad.clone(), **options)
        for level in usable_levels():
            found = pad.clone()
            with backend.native_replaced(Kernels(level)):
                assert waves.deal_waves(v, found, **options) is found
            assert torch.equal(found, expected), level


@draws(60)
@given(rings, shapes, seeds, st.booleans(), st.booleans(), st.booleans(), st.data())
def test_sums_of_waves(ring, shape, seed, has_cosines, at_once, is_turned, data):
    period = data.draw(st.integers(1, ring.bits))
    sines = data.draw(st.lists(factors, min_size=1, max_size=9))
    cosines = [x / 3 if has_cosines else 0.0 for x in sines]
    options = {"sines": sines, "cosines": cosines, "period_bits": period}
    options["fraction_bits"] = data.draw(st.integers(0, ring.bits // 2))
    m, out = (ring_tensor(ring, shape, seed + i) for i in range(2))
    dealt = ring_tensor(ring, (len(sines), 2, *shape), seed + 2)
    if is_turned:  # memory in another order
        m = m.flip(0).contiguous().flip(0).transpose(0, -1).contiguous().transpose(0, -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waves, "AT_ONCE", 1 << 14 if at_once else -1)
        expected = by_torch(waves.add_wave_sum, out.clone(), m, dealt, **options)
        for level in usable_levels():
            found = out.clone()
            with backend.native_replaced(Kernels(level)):
                assert waves.add_wave_sum(found, m, dealt, **options) is found
            assert torch.equal(found, expected), level


def test_kernels_get_only_memory_of_their_form():
    """What broadcasts is left to torch: a kernel would read or write beyond its memory."""
    v, pad = torch.arange(8), torch.arange(96).view(3, 4, 8)
    options = {"period_bits": 20, "fraction_bits": 20}
    found = waves.deal_waves(v, pad.clone(), **options)  # with rows for products, and no factor
    assert torch.equal(found, by_torch(waves.deal_waves, v, pad.clone(), **options))
    assert torch.equal(found[:, 2:], pad[:, 2:])
    out, dealt = torch.zeros(5, 8, dtype=torch.int64), torch.ones(2, 2, 1, dtype=torch.int64)
    options |= {"sines": [1.0, 0.5], "cosines": [0.5, 0.0]}
    found = waves.add_wave_sum(out.clone(), v, dealt, **options)
    assert torch.equal(found, by_torch(waves.add_wave_sum, out.clone(), v, dealt, **options))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_waves_are_sines_and_cosines(dtype):
    """What is dealt, without a pad, beside torch's own functions."""
    x = torch.linspace(-(2**20), 2**20, 999).to(dtype)
    bits, period = 24, 18
    dealt = waves.deal_waves(
        x, torch.zeros(4, 2, 999, dtype=dtype), period_bits=period, fraction_bits=bits
    )
    for h, (cosines, sines) in zip((1, 3, 5, 7), dealt, strict=True):
        angle = 2 * torch.pi * h * x.double() / 2**period
        for found, wanted in ((cosines, angle.cos()), (sines, angle.sin())):
            assert (found.double() - wanted * 2**bits).abs().max() <= 0.51
    assert ring_of(dealt).dtype == dtype


def test_many_elements_are_computed_by_several_threads():
    before = backend.num_threads()
    x, pad = torch.randint(-(2**40), 2**40, (30_001,)), torch.randint(9, (5, 2, 30_001))
    options = {"period_bits": 30, "fraction_bits": 40}
    try:
        found = []
        for threads in (1, 4):
            backend.set_num_threads(threads)
            found.append(waves.deal_waves(x, pad.clone(), **options))
    finally:
        backend.set_num_threads(before)
    assert torch.equal(*found)
    assert torch.equal(found[0], by_torch(waves.deal_waves, x, pad.clone(), **options))
