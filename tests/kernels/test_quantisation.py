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
from tacit.kernels import backend
from tacit.kernels.quantisation import (
    PART_STEP,
    add_three,
    dequantise32,
    masked8,
    quantise8,
    summary,
)
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


@draws(40)
@given(sizes, st.integers(1, 70), seeds)
def test_parts_are_rounded_as_in_the_whole_tensor(count, blocks, seed):
    for x in (floats(count, seed), floats(count, seed).double()):
        wanted = quantise8(x, 0, KEYS[0], operation=seed)
        step = blocks * PART_STEP
        parts = [
            quantise8(x[first : first + step], 0, KEYS[0], operation=seed, first=first)
            for first in range(0, count, step)
        ]
        assert torch.equal(torch.cat(parts), wanted)


def test_parts_begin_at_blocks():
    with pytest.raises(ConfigError, match="1024"):
        quantise8(torch.zeros(3), 0, KEYS[0], operation=1, first=512)


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
        found = masked8(x, keys, torch.empty(count).int(), operation=seed, cipher=cipher)
        for key in keys:
            kernels.mask(key, found, "add", operation=seed, cipher=cipher)
        assert torch.equal(found, x.int())


@pytest.mark.parametrize(
    ("x", "keys", "out", "cipher"),
    [
        (torch.zeros(3).int(), KEYS, torch.zeros(3).int(), "aes128-ctr"),
        (torch.zeros(3).char(), KEYS[:1], torch.zeros(3).int(), "aes128-ctr"),
        (torch.zeros(3).char(), KEYS, torch.zeros(3).int(), "rot13"),
        (torch.zeros(3).char(), KEYS, torch.zeros(2).int(), "aes128-ctr"),
        (torch.zeros(3).char(), KEYS, torch.zeros(3).long(), "aes128-ctr"),
        (torch.zeros(3).char(), KEYS, torch.zeros(6).int()[::2], "aes128-ctr"),
    ],
)
def test_other_masks_are_refused(x, keys, out, cipher):
    with pytest.raises(ConfigError):
        masked8(x, keys, out, operation=1, cipher=cipher)


@draws(60)
@given(sizes, st.floats(width=32, allow_nan=False), st.integers(0, 10**6))
def test_the_largest_number(count, value, place):
    x = torch.linspace(-1, 1, count)
    x[place % count] = value
    for one in (x, x.double()):
        assert summary(one).most == float(x.abs().max())


@pytest.mark.parametrize("value", [nan, -nan, inf, -inf])
@pytest.mark.parametrize("count", [1, 70_001])
def test_numbers_that_are_not_finite(value, count):
    x = torch.full((count,), 3e38)
    x[count // 2] = value
    assert isnan(summary(x).most) if isnan(value) else summary(x).most == inf
    x[0] = nan
    assert isnan(summary(x).most)


@draws(20)
@given(sizes, seeds)
def test_hashes(count, seed):
    x = ring_tensor(RING32, (count,), seed)
    words = [word % (1 << 32) for word in x.tolist()]
    native = backend.load_native()
    if native and hasattr(native, "summary32"):
        assert summary(x.view(torch.float32)).hash == reference.hashed(words)


def test_hashes_notice_changes():
    x = floats(70_001, 1)
    seen = {summary(x).hash}
    for place in (0, 1, 31, 32, 65_535, 65_536, 70_000):
        for bit in (0, 15, 31):
            changed = x.view(torch.int32).clone()
            changed[place] ^= -(1 << 31) if bit == 31 else 1 << bit
            seen.add(summary(changed.view(torch.float32)).hash)
    others = (x.roll(1), x.roll(32), x[:-1].clone(), x.flip(0), x.double(), -x, 2 * x)
    for other in others:
        seen.add(summary(other).hash)
    assert len(seen) == 1 + 7 * 3 + len(others)


def test_other_tensors_have_no_summary():
    for x in (torch.zeros(3, dtype=torch.int32), torch.zeros(4, 4).T[:2]):
        with pytest.raises(ConfigError):
            summary(x)


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
