"""The GPU's sines and powers, bit for bit those that torch computes operation by operation.

Without a GPU they run in Triton's interpreter: few examples, small sizes. That compiled kernels do
not join products and sums is tested by `test_gpu_compiles`.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds
from tests.tiers import FULL, draws

from tacit.kernels import powers_of_two, waves

gpu = pytest.importorskip("tacit.kernels.gpu")

HERE = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HERE else "cpu")
FEW = draws(100) if HERE else settings(deadline=None, max_examples=12 if FULL else 5)

shapes = st.sampled_from([(0,), (1,), (3, 43), (2, 65)])
factors = st.floats(-4, 4)


def there(x: torch.Tensor) -> torch.Tensor:
    return x.to(DEVICE, copy=True)


@FEW
@given(rings, shapes, seeds, st.integers(1, 5), st.booleans(), st.booleans(), st.data())
def test_dealt_waves(ring, shape, seed, count, has_factor, at_once, data):
    period = data.draw(st.integers(1, ring.bits))
    bits = data.draw(st.integers(0, ring.bits - 2))
    v, factor = (ring_tensor(ring, shape, seed + i) for i in range(2))
    pad = ring_tensor(ring, (count, 4 if has_factor else 2, *shape), seed + 2)
    expected, found = pad.clone(), there(pad)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waves, "AT_ONCE", 1 << 14 if at_once else -1)
        chosen = {"factor": factor if has_factor else None}
        waves.deal_waves(v, expected, period_bits=period, fraction_bits=bits, **chosen)
    by = there(factor) if has_factor else None
    gpu.deal_waves(there(v), found, by, period, bits, at_once=at_once)
    assert torch.equal(found.cpu(), expected)


@FEW
@given(rings, shapes, seeds, st.booleans(), st.booleans(), st.data())
def test_sums_of_waves(ring, shape, seed, has_cosines, at_once, data):
    period = data.draw(st.integers(1, ring.bits))
    bits = data.draw(st.integers(0, ring.bits // 2))
    sines = tuple(data.draw(st.lists(factors, min_size=1, max_size=5)))
    cosines = tuple(x / 3 if has_cosines else 0.0 for x in sines)
    m, out = (ring_tensor(ring, shape, seed + i) for i in range(2))
    dealt = ring_tensor(ring, (len(sines), 2, *shape), seed + 2)
    found = there(out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waves, "AT_ONCE", 1 << 14 if at_once else -1)
        options = {"period_bits": period, "fraction_bits": bits, "sines": sines, "cosines": cosines}
        waves.add_wave_sum(out, m, dealt, **options)
    moved = there(m), there(dealt), sines, cosines
    gpu.add_wave_sum(found, *moved, period, bits, at_once=at_once)
    assert torch.equal(found.cpu(), out)


@FEW
@given(rings, shapes, seeds, st.integers(0, 4), st.data())
def test_powers(ring, shape, seed, step, data):
    """Steps and bits with which the largest power fits in the ring, as protocols choose them."""
    step = min(step, 3) if ring.bits == 32 else step
    bits = data.draw(st.integers(1, ring.bits - 2))
    fraction_bits = data.draw(st.integers(0, min(ring.bits // 2, ring.bits - 2 - (2 << step))))
    v, m, out = (ring_tensor(ring, shape, seed + i) for i in range(3))
    pad = ring_tensor(ring, (powers_of_two.table_entries(step), *shape), seed + 3)
    last = min(len(pad) - 1, fraction_bits // (1 << step) + 3)
    table = gpu.deal_powers(there(v), there(pad), bits, step, fraction_bits, last).cpu()
    powers_of_two.deal_powers(v, pad, bits=bits, step=step, table_bits=fraction_bits)
    assert torch.equal(table, pad)
    found = gpu.add_power(there(out), there(m), there(pad), bits, step, fraction_bits).cpu()
    powers_of_two.add_power(out, m, pad, bits=bits, step=step, public_bits=fraction_bits)
    assert torch.equal(found, out)
