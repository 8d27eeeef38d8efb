"""Checksums of tensors' words, beside those of Python's integers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds

from tacit.errors import ConfigError
from tacit.kernels import add_checksum, checksum, stream
from tacit.kernels.stream import CIPHERS
from tacit.ring import RING64

PRIME, PART_WORDS = 2**61 - 1, 8192
CIPHER_NAMES = list(CIPHERS)
TABLE = stream(bytes(16), torch.empty(PART_WORDS, dtype=torch.int64), operation=1)


def key_of(cipher):
    return bytes(range(CIPHERS[cipher].key_bytes))


def of_integers(values, table, cipher, offset):
    words, total = values.view(torch.int32).tolist(), 0
    for part, start in enumerate(range(0, len(words), PART_WORDS)):
        factor = torch.zeros(1, dtype=torch.int64)
        where = {"operation": 9, "offset": offset + 64 * part, "cipher": cipher}
        stream(key_of(cipher), factor, **where)
        some = words[start : start + PART_WORDS]
        sums = sum((t % 2**61) * (x % 2**32) for t, x in zip(table.tolist(), some, strict=False))
        total += factor.item() % 2**61 * sums
    return total % PRIME


def found(values, cipher="aes128-ctr", offset=0, table=TABLE):
    total = torch.zeros(2, dtype=torch.int64)
    where = {"operation": 9, "offset": offset, "cipher": cipher}
    return checksum(add_checksum(table, key_of(cipher), values, total, **where))


@pytest.mark.parametrize("cipher", CIPHER_NAMES)
@given(rings, st.sampled_from([0, 1, 1023, 4096, 9001]), st.sampled_from([0, 192]), seeds)
def test_it_is_that_of_integers(cipher, ring, count, offset, seed):
    values = ring_tensor(ring, (count,), seed)
    assert found(values, cipher, offset) == of_integers(values, TABLE, cipher, offset)


def test_the_largest_words():
    values, table = torch.full((10_000,), -1), torch.full((PART_WORDS,), -1)
    expected = of_integers(values, table, "aes128-ctr", 0)
    assert found(values, table=table) == expected


@given(seeds, st.integers(0, 4999), st.integers(0, 63))
def test_one_changed_bit_changes_it(seed, place, bit):
    values = ring_tensor(RING64, (5000,), seed)
    before = found(values)
    values[place] ^= torch.tensor(1).bitwise_left_shift(torch.tensor(bit))
    assert found(values) != before


def test_equal_changes_of_two_parts_do_not_cancel():
    """Each part has a factor of its own: the same table is no help."""
    values = torch.zeros(PART_WORDS, dtype=torch.int64)
    values[0], values[PART_WORDS // 2] = 1, -1
    assert found(values) != found(torch.zeros_like(values))


def test_those_of_several_tensors_add_up():
    one, two = torch.arange(70), torch.arange(5, dtype=torch.int32)
    total, key = torch.zeros(2, dtype=torch.int64), key_of("aes128-ctr")
    add_checksum(TABLE, key, one, total, operation=9, offset=0)
    add_checksum(TABLE, key, two, total, operation=9, offset=64)
    assert checksum(total) == (found(one) + found(two, offset=64)) % PRIME


def test_what_it_refuses():
    values, total, key = torch.arange(4), torch.zeros(2, dtype=torch.int64), key_of("aes128-ctr")
    with pytest.raises(ConfigError, match="multiple of 64"):
        add_checksum(TABLE, key, values, total, operation=0, offset=8)
    with pytest.raises(ConfigError, match="table of 8192"):
        add_checksum(TABLE[1:], key, values, total, operation=0)
