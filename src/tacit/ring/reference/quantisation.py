"""Floats as 8-bit integers and back, and masks on them, as their equations say."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

RANDOM_BITS = 16


def max_abs(x: Tensor) -> float:
    """Returns max|x|; NaN if any element is."""
    return float(x.abs().amax())


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
