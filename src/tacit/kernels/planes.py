"""Bit planes and packed bits: one int64 word holds one bit of 64 consecutive elements.

Bit j of word b of plane i is bit i of element 64 b + j of the flattened tensor. In the last word,
bits beyond the last element are zero after packing and ignored when unpacking.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring import RING32, RING64, num_words, ring_of
from ..ring.reference import bits as reference
from .backend import address, gpu_for, native_for

PACKABLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def bit_planes(x: Tensor, width: int, low: int = 0) -> Tensor:
    """Returns bits [low, low + width) of x as planes, of shape (width, ceil(x.numel() / 64))."""
    check_window(x, width, low)
    if gpu := gpu_for(x):
        return gpu.bit_planes(x, width, low)
    native = native_for(x)
    if native is None:
        return reference.bit_planes(x, width, low)
    x = x.contiguous()
    planes = x.new_empty(width, num_words(x.numel()), dtype=torch.int64)
    native.bit_planes(address(x), x.element_size(), x.numel(), low, width, address(planes))
    return planes


def from_bit_planes(
    planes: Tensor, shape: Sequence[int], dtype: torch.dtype, *, signed: bool = False
) -> Tensor:
    """Returns the tensor of this shape whose low bits are the planes.

    The bits above them are zeros, or copies of the last plane if `signed`.
    """
    ring = {r.dtype: r for r in (RING32, RING64)}.get(dtype)
    if ring is None:
        raise ConfigError(f"dtype={dtype}", limit="ring tensors are int32 or int64")
    if planes.ndim != 2 or not 1 <= planes.shape[0] <= ring.bits:
        limit = f"(1..{ring.bits} planes, words) is needed"
        raise ConfigError(f"planes of shape {tuple(planes.shape)}", limit=limit)
    _check_words(planes, planes.shape[1], shape)
    if gpu := gpu_for(planes):
        return gpu.from_bit_planes(planes, shape, dtype, signed=signed)
    native = native_for(planes)
    if native is None:
        return reference.from_bit_planes(planes, shape, dtype, signed=signed)
    planes, out = planes.contiguous(), planes.new_empty(tuple(shape), dtype=dtype)
    native.from_bit_planes(
        address(planes), planes.shape[0], signed, address(out), ring.bytes, out.numel()
    )
    return out


def pack_bits(bits: Tensor) -> Tensor:
    """Returns bit 0 of each element, packed in ceil(bits.numel() / 64) words."""
    if bits.dtype not in PACKABLE:
        raise ConfigError(f"dtype={bits.dtype}", limit="bits are bool or integers")
    if gpu := gpu_for(bits):
        return gpu.pack_bits(bits)
    native = native_for(bits)
    if native is None:
        return reference.pack_bits(bits)
    bits = bits.contiguous()
    words = bits.new_empty(num_words(bits.numel()), dtype=torch.int64)
    native.bit_planes(address(bits), bits.element_size(), bits.numel(), 0, 1, address(words))
    return words


def unpack_bits(words: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns the tensor of this shape of the zeros and ones that the words hold."""
    if dtype not in PACKABLE:
        raise ConfigError(f"dtype={dtype}", limit="bits unpack to bool or integers")
    _check_words(words, words.numel(), shape)
    if gpu := gpu_for(words):
        return gpu.unpack_bits(words, shape, dtype)
    native = native_for(words)
    if native is None:
        return reference.unpack_bits(words, shape, dtype)
    words, out = words.contiguous(), words.new_empty(tuple(shape), dtype=dtype)
    native.from_bit_planes(address(words), 1, False, address(out), out.element_size(), out.numel())
    return out


def popcount(words: Tensor) -> Tensor:
    """Returns the number of ones in each int64 word, 0..64."""
    return _each_word("popcount", words)


def parity(words: Tensor) -> Tensor:
    """Returns the XOR of the 64 bits of each int64 word, 0 or 1."""
    return _each_word("parity", words)


def _each_word(name: str, words: Tensor) -> Tensor:
    _check_dtype(words)
    if gpu := gpu_for(words):
        return getattr(gpu, name)(words)
    native = native_for(words)
    if native is None:
        slow: Tensor = getattr(reference, name)(words)
        return slow
    words = words.contiguous()
    out = torch.empty_like(words)
    getattr(native, name)(address(words), address(out), words.numel())
    return out


def check_window(x: Tensor, width: int, low: int) -> None:
    """Raises ConfigError unless elements of x have the bits [low, low + width)."""
    bits = ring_of(x).bits
    if width < 1 or low < 0 or low + width > bits:
        limit = f"the window must lie in bits 0..{bits - 1}"
        raise ConfigError(f"width={width}, low={low}", limit=limit)


def _check_dtype(words: Tensor) -> None:
    if words.dtype != torch.int64:
        raise ConfigError(f"dtype={words.dtype}", limit="packed words are int64")


def _check_words(words: Tensor, found: int, shape: Sequence[int]) -> None:
    _check_dtype(words)
    needed = num_words(math.prod(shape))
    if found != needed:
        raise ConfigError(f"{found} words a plane", limit=f"shape {tuple(shape)} needs {needed}")


def num_columns(planes: Tensor) -> int:
    """Returns how many words each plane has."""
    if planes.ndim != 2:
        shape = tuple(planes.shape)
        raise ConfigError(f"planes of shape {shape}", limit="(planes, words) is needed")
    return planes.shape[1]


def checked_planes(words: int, *given: tuple[str, Tensor, int]) -> list[Tensor]:
    """Returns the planes, contiguous; raises unless each is int64 and has its number of rows.

    `given` lists the name, the planes and the number of rows of each argument.
    """
    for name, planes, rows in given:
        if planes.dtype != torch.int64:
            raise ConfigError(f"{name}: dtype={planes.dtype}", limit="planes are int64")
        if planes.shape != (rows, words):
            limit = f"{rows} planes of {words} words are needed"
            raise ConfigError(f"{name} of shape {tuple(planes.shape)}", limit=limit)
    return [planes.contiguous() for _, planes, _ in given]


def output_like(out: Tensor | None, like: Tensor) -> Tensor:
    """Returns `out` if it is given and fits `like`, else new memory like `like`."""
    if out is None:
        return torch.empty_like(like)
    if out is like:
        return out
    if out.dtype != like.dtype or out.shape != like.shape or not out.is_contiguous():
        limit = f"a contiguous int64 tensor of shape {tuple(like.shape)} is needed"
        raise ConfigError("out", limit=limit)
    return out
