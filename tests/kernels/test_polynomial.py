"""Polynomials of tensors' words at secret points, beside those of Python's integers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds

from tacit.errors import ConfigError
from tacit.kernels import add_polynomial, polynomials
from tacit.kernels.stream import CIPHERS, stream
from tacit.ring import RING64

PRIME = 2**61 - 1
CIPHER_NAMES = list(CIPHERS)


def key_of(cipher):
    return bytes(range(CIPHERS[cipher].key_bytes))


def at(values, point):
    total = 0
    for word in reversed(values.view(torch.int32).tolist()):
        total = (total + word % 2**32) * point % PRIME
    return total


def hashed(values, cipher, offset=0):
    totals = torch.zeros((2, 2), dtype=torch.int64)
    return polynomials(
        add_polynomial(key_of(cipher), values, totals, operation=9, offset=offset, cipher=cipher)
    )


@pytest.mark.parametrize("cipher", CIPHER_NAMES)
@given(rings, st.sampled_from([0, 1, 2, 4095, 4096, 9001]), st.sampled_from([0, 192]), seeds)
def test_it_is_that_of_integers(cipher, ring, count, offset, seed):
    values, points = ring_tensor(ring, (count,), seed), torch.zeros(2, dtype=torch.int64)
    stream(key_of(cipher), points, operation=9, offset=offset, cipher=cipher)
    expected = [at(values, point % 2**61) for point in points.tolist()]
    assert hashed(values, cipher, offset) == expected


def test_the_largest_words():
    values, points = torch.full((10_000,), -1), torch.zeros(2, dtype=torch.int64)
    stream(key_of("chacha20"), points, operation=9, cipher="chacha20")
    assert hashed(values, "chacha20") == [at(values, point % 2**61) for point in points.tolist()]


@given(seeds, st.integers(0, 499), st.integers(0, 63))
def test_one_changed_bit_changes_both(seed, place, bit):
    values = ring_tensor(RING64, (500,), seed)
    before = hashed(values, "aes128-ctr")
    values[place] ^= torch.tensor(1).bitwise_left_shift(torch.tensor(bit))
    assert all(x != y for x, y in zip(before, hashed(values, "aes128-ctr"), strict=True))


def test_values_of_several_tensors_add_up():
    one, two = torch.arange(70), torch.arange(5, dtype=torch.int32)
    totals = torch.zeros((2, 2), dtype=torch.int64)
    where = {"operation": 9, "cipher": "chacha20"}
    add_polynomial(key_of("chacha20"), one, totals, offset=0, **where)
    add_polynomial(key_of("chacha20"), two, totals, offset=64, **where)
    expected = zip(hashed(one, "chacha20"), hashed(two, "chacha20", 64), strict=True)
    assert polynomials(totals) == [sum(pair) % PRIME for pair in expected]


def test_what_it_refuses():
    values, totals = torch.arange(4), torch.zeros((2, 2), dtype=torch.int64)
    with pytest.raises(ConfigError, match="multiple of 64"):
        add_polynomial(key_of("aes128-ctr"), values, totals, operation=0, offset=8)
    with pytest.raises(ConfigError, match=r"\(2, 2\)"):
        add_polynomial(key_of("aes128-ctr"), values, totals[0], operation=0)
