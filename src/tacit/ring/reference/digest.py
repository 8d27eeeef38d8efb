"""The digest of memory, on Python's integers: see `csrc/digest.cpp` for its definition."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

WORDS = 128  # in a block
BLOCK = 8 * WORDS
_MASK = (1 << 64) - 1


def constants() -> Iterator[int]:
    """Yields the keys of a block's words, then the two halves of the polynomial's point."""
    counter = 0
    while True:
        counter = (counter + 0x9E3779B97F4A7C15) & _MASK
        x = counter
        for _ in range(2):
            x = ((x ^ (x >> 32)) * 0xD6E8FEB86659FD93) & _MASK
        yield x ^ (x >> 32)


*KEYS, HIGH, LOW = islice(constants(), WORDS + 2)
POINT = HIGH << 64 | LOW | 1


def digest(memory: bytes) -> bytes:
    """Returns 16 bytes: sum over blocks j of hash(block j) POINT^(last - j), mod 2^128."""
    state = 0
    for start in range(0, len(memory), BLOCK):
        block = memory[start : start + BLOCK].ljust(BLOCK, b"\0")
        state = (state * POINT + _hash(block)) % (1 << 128)
    return state.to_bytes(16, "little")


def _hash(block: bytes) -> int:
    words = struct.unpack(f"<{WORDS}Q", block)
    keyed = [(word + key) & _MASK for word, key in zip(words, KEYS, strict=True)]
    return sum(a * b for a, b in zip(keyed[::2], keyed[1::2], strict=True))
