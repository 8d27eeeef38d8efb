"""Bit planes by shifting and masking: bit j of word b of plane i is bit i of element 64 b + j."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..ring import WORD, num_words


def bit_planes(x: Tensor, width: int, low: int = 0) -> Tensor:
    """Returns bits [low, low + width) of x, one plane a row."""
    return torch.stack([pack_bits(x >> (low + i)) for i in range(width)])


def from_bit_planes(
    planes: Tensor, shape: Sequence[int], dtype: torch.dtype, *, signed: bool = False
) -> Tensor:
    """Returns the elements whose low bits are the planes; `signed` repeats the last plane above."""
    bits = [unpack_bits(plane, shape, torch.int64) for plane in planes]
    value = torch.zeros(tuple(shape), dtype=torch.int64, device=planes.device)
    for i in range(WORD if signed else len(bits)):
        value |= bits[min(i, len(bits) - 1)] << i
    return value.to(dtype)


def pack_bits(bits: Tensor) -> Tensor:
    """Returns bit 0 of each element, 64 elements a word."""
    flat = bits.reshape(-1).to(torch.int64) & 1
    padded = flat.new_zeros(num_words(len(flat)) * WORD)
    padded[: len(flat)] = flat
    return (padded.view(-1, WORD) << torch.arange(WORD, device=flat.device)).sum(1)


def unpack_bits(words: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns the zeros and ones of packed words as a tensor of this shape."""
    bits = (words.reshape(-1, 1) >> torch.arange(WORD, device=words.device)) & 1
    return bits.view(-1)[: math.prod(shape)].view(tuple(shape)).to(dtype)


def popcount(words: Tensor) -> Tensor:
    """Returns the number of ones in each word."""
    return sum((words >> i & 1 for i in range(WORD)), torch.zeros_like(words))


def parity(words: Tensor) -> Tensor:
    """Returns the XOR of the bits of each word."""
    return popcount(words) & 1
