"""The digest of memory: equal to its reference, and changed by every change."""

import numpy as np
import pytest
import torch

from tacit.errors import ConfigError
from tacit.kernels import digest
from tacit.ring.reference import digest as reference

SIZES = [0, 1, 7, 8, 9, 1023, 1024, 1025, 2048, 5000, 70_001]


@pytest.mark.parametrize("size", SIZES)
def test_it_equals_the_reference(size: int) -> None:
    memory = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert digest(torch.from_numpy(memory)) == reference.digest(memory.tobytes())


def test_memory_may_begin_anywhere() -> None:
    memory = torch.arange(5000).to(torch.uint8)
    for start in range(1, 9):
        assert digest(memory[start:]) == digest(memory[start:].clone())


def test_every_changed_bit_and_every_swap_of_words_is_seen() -> None:
    words = torch.randint(-(2**62), 2**62, (400,), generator=torch.Generator().manual_seed(3))
    seen = {digest(words)}
    for bit in range(0, 64 * 400, 37):
        changed = words.clone()
        changed[bit // 64] ^= -(2**63) if bit % 64 == 63 else 1 << (bit % 64)
        seen.add(digest(changed))
    for i in range(399):
        swapped = words.clone()
        swapped[[i, i + 1]] = words[[i + 1, i]]
        seen.add(digest(swapped))
    assert len(seen) == 1 + len(range(0, 64 * 400, 37)) + 399


def test_only_plain_memory() -> None:
    with pytest.raises(ConfigError):
        digest(torch.zeros(4, 4).t())
