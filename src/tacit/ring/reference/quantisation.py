"""Floats as 8-bit integers and back, and masks on them, as their equations say."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

RANDOM_BITS = 16


LANES, BLOCK = 32, 1 << 16
FACTOR, POINT = 0x9E3779B1, 0x9E3779B97F4A7C15


def max_abs(x: Tensor) -> float:
    """Returns max|x|; NaN if any element is."""
    return float(x.abs().amax())


def hashed(words: Sequence[int]) -> int:
    """Returns a hash of 32-bit words.

    A block of 2^16 words has 32 lanes; word i of it belongs to lane i mod 32.
    """
    total = 0
    for start in range(0, len(words), BLOCK):
        block, value = words[start : start + BLOCK], 0
        for lane in range(LANES):
            value = (value * POINT + mixed(block[lane::LANES])) % (1 << 64)
        total = (total * POINT + value) % (1 << 64)
    return total


def mixed(words: Sequence[int]) -> int:
    """Returns 32 bits of all words. A polynomial would not notice that all signs change."""
    value = 0
    for word in words:
        value = (value ^ word) * FACTOR % (1 << 32)
        value = (value << 15 | value >> 17) % (1 << 32)
    return value


def quantise8(x: Tensor, exponent: int, words: Tensor) -> Tensor:
    """Returns floor(y), or one more if a random fraction is below that of y = x 2^exponent.

    words: int16, of which each is a random fraction (r + 1/2) 2^-16 with 0 <= r < 2^16.
    """
    y = x * 2.0**exponent
    low = y.floor()
    random = ((words.int() & ((1 << RANDOM_BITS) - 1)) + 0.5) * 2.0**-RANDOM_BITS
    return (low + (random < y - low)).clamp(-128, 127).to(torch.int8)


def masked8(x: Tensor, masks: Sequence[Tensor]) -> Tensor:
    """Returns x minus the masks, mod 2^32."""
    return x.int() - sum(masks)


def dequantise32(x: Tensor, exponent: int) -> Tensor:
    """Returns x 2^exponent, rounded to a float once."""
    return x.float() * 2.0**exponent


def add_three(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Returns a + b + c in the ring."""
    return a + b + c
