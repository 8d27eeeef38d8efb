"""Passes of an enclave over its tensors: the compiled ones are the reference, bit for bit."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, seeds
from tests.tiers import draws

from tacit import kernels
from tacit.errors import ConfigError
from tacit.kernels.quantisation import add_three, dequantise32, masked8, max_abs, quantise8
from tacit.ring import RING32
from tacit.ring.reference import quantisation as reference

KEYS = [bytes(range(n, n + 16)) for n in (1, 2)]
LONG = [bytes(range(n, n + 32)) for n in (1, 2)]
sizes = st.sampled_from([1, 2, 7, 1023, 1024, 1025, 65535, 65536, 65537, 200_003])


def floats(count: int, seed: int) -> torch.Tensor:
    """Numbers in (-128, 128): whole ones, halves, tiny ones and any."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, generator=generator) * 255.99 - 127.995
    kind = torch.randint(5, (count,), generator=generator)
    x = torch.where(kind == 0, x.round().clamp(-127, 127), x)
    x = torch.where(kind == 1, x.floor() + 0.5, x)
    x = torch.where(kind == 2, x * 2.0**-30, x)
    x[0] = 128 - 2.0**-17
    return x


def words_of(count: int, operation: int) -> torch.Tensor:
    words = torch.empty(-(-count // 2), dtype=torch.int32)
    return kernels.stream(KEYS[0], words, operation=operation).view(torch.int16)[:count]


@draws(60)
@given(sizes, st.integers(-100, 100), seeds)
def test_quantise(count, exponent, seed):
    x = floats(count, seed) * 2.0**-exponent
    found = quantise8(x, exponent, KEYS[0], operation=seed)
    assert torch.equal(found, reference.quantise8(x, exponent, words_of(count, seed)))


def test_quantised_numbers_are_at_most_127():
    x = torch.full((4096,), 128 - 2.0**-17)
    x[::2] *= -1
    found = quantise8(x, 0, KEYS[0], operation=1)
    assert set(found[1::2].tolist()) == {127}
    assert set(found[::2].tolist()) == {-128}


def test_strides_and_doubles_round_alike():
    x = floats(600, 1).view(20, 30)
    wanted = quantise8(x, 0, KEYS[0], operation=3)
    assert torch.equal(quantise8(x.T.contiguous().T, 0, KEYS[0], operation=3), wanted)
    assert torch.equal(quantise8(x.double(), 0, KEYS[0], operation=3), wanted)


@draws(60)
@given(sizes, seeds)
def test_masks(count, seed):
    x = torch.randint(-128, 128, (count,), generator=torch.Generator().manual_seed(seed)).to(
        torch.int8
    )
    for cipher, keys in (("aes128-ctr", KEYS), ("chacha20", LONG)):
        found = masked8(x, keys, operation=seed, cipher=cipher)
        for key in keys:
            kernels.mask(key, found, "add", operation=seed, cipher=cipher)
        assert torch.equal(found, x.int())


@pytest.mark.parametrize(
    ("x", "keys", "cipher"),
    [
        (torch.zeros(3, dtype=torch.int32), KEYS, "aes128-ctr"),
        (torch.zeros(3, dtype=torch.int8), KEYS[:1], "aes128-ctr"),
        (torch.zeros(3, dtype=torch.int8), KEYS, "rot13"),
    ],
)
def test_other_masks_are_refused(x, keys, cipher):
    with pytest.raises(ConfigError):
        masked8(x, keys, operation=1, cipher=cipher)


@draws(60)
@given(sizes, st.floats(width=32, allow_nan=False), st.integers(0, 10**6))
def test_max_abs(count, value, place):
    x = torch.linspace(-1, 1, count)
    x[place % count] = value
    assert max_abs(x) == float(x.abs().max())


@pytest.mark.parametrize("value", [nan, -nan, inf, -inf])
@pytest.mark.parametrize("count", [1, 70_001])
def test_max_abs_of_what_is_not_finite(value, count):
    x = torch.full((count,), 3e38)
    x[count // 2] = value
    assert isnan(max_abs(x)) if isnan(value) else max_abs(x) == inf
    x[0] = nan
    assert isnan(max_abs(x))


@draws(40)
@given(sizes, st.integers(-120, 120), seeds)
def test_dequantise(count, exponent, seed):
    x = ring_tensor(RING32, (count,), seed)
    assert torch.equal(dequantise32(x, exponent), reference.dequantise32(x, exponent))
    assert torch.equal(dequantise32(x[::2], exponent), reference.dequantise32(x, exponent)[::2])


@draws(40)
@given(sizes, seeds)
def test_sums(count, seed):
    a, b, c = (ring_tensor(RING32, (count,), seed + i) for i in range(3))
    assert torch.equal(add_three(a, b, c), a + b + c)
    assert torch.equal(add_three(a.long(), b.long(), c.long()), a.long() + b.long() + c.long())


def test_exponents_beyond_floats_are_refused():
    for exponent in (-121, 121):
        with pytest.raises(ConfigError):
            quantise8(torch.zeros(3), exponent, KEYS[0], operation=1)
        with pytest.raises(ConfigError):
            dequantise32(torch.zeros(3, dtype=torch.int32), exponent)
