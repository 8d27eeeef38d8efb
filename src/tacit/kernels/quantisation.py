"""Floats as 8-bit integers and back, and masks on them, in one pass over memory each.

Random words stay in the cache, and no element is read or written twice.
Exponents are between -120 and 120, where powers of two are ordinary floats.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring.reference import quantisation as reference
from .backend import address, native_for
from .digest import digest
from .stream import CIPHERS, stream

MOST_EXPONENT = 120
CIPHER = "aes128-ctr"  # of the rounding
PART_STEP = 1024  # elements: a part of a tensor begins at a multiple of it


class Summary(NamedTuple):
    """What one pass over a tensor of floats tells of it.

    most: max|x|; NaN if any element is. hash: another one if the tensor has changed, but for
    accidents; the compiled one is that of the reference, else it is `digest`.
    """

    most: float
    hash: int


def summary(x: Tensor) -> Summary:
    """Returns the maximum and the hash of a contiguous tensor of float32 or float64."""
    if x.dtype not in (torch.float32, torch.float64) or not x.is_contiguous():
        raise ConfigError(f"{x.dtype}", limit="contiguous float32 or float64 is needed")
    native = _native(x)
    if native is None or x.dtype != torch.float32:
        return Summary(reference.max_abs(x), int.from_bytes(digest(x.cpu()), "little"))
    out = torch.empty(2, dtype=torch.int64)
    native.summary32(address(x), x.numel(), address(out))
    bits, hash_ = out.tolist()
    return Summary(struct.unpack("<f", struct.pack("<I", bits))[0], hash_ % (1 << 64))


def quantise8(x: Tensor, exponent: int, key: bytes, *, operation: int, first: int = 0) -> Tensor:
    """Returns the int8 of floats times 2^exponent, which are between -128 and 128, rounded.

    The probability of rounding up is the fraction, up to 2^-17. Random words are those of `stream`,
    16 bits for each element in order. A part of a tensor is rounded as in the whole tensor, if
    `first` is the number of elements before it, a multiple of PART_STEP.
    """
    _check(exponent)
    if first % PART_STEP:
        raise ConfigError(f"first={first}", limit=f"a multiple of {PART_STEP} is needed")
    x, native = x.contiguous(), _native(x)
    kernel = getattr(native, f"quantise8_from_{CIPHERS[CIPHER].name}", None)
    if kernel is None or x.dtype != torch.float32:
        words = torch.empty(-(-x.numel() // 2), dtype=torch.int32, device=x.device)
        stream(key, words, operation=operation, offset=2 * first, cipher=CIPHER)
        halves = words.view(torch.int16)
        return reference.quantise8(x, exponent, halves[: x.numel()].view(x.shape))
    out = torch.empty(x.shape, dtype=torch.int8)
    kernel(address(x), 2.0**exponent, key, operation, address(out), x.numel(), first)
    return out


def masked8(
    x: Tensor, keys: Sequence[bytes], out: Tensor, *, operation: int, cipher: str = "aes128-ctr"
) -> Tensor:
    """Fills `out` with int8 numbers minus the words of two streams, as int32 mod 2^32."""
    if x.dtype != torch.int8 or len(keys) != 2 or cipher not in CIPHERS:
        what = f"{x.dtype} with {len(keys)} keys of {cipher!r}"
        raise ConfigError(what, limit=f"int8 and two keys of {' or '.join(CIPHERS)} are needed")
    if out.dtype != torch.int32 or out.shape != x.shape or not out.is_contiguous():
        limit = f"contiguous int32 of {tuple(x.shape)} is needed"
        raise ConfigError(f"out of {out.dtype} of {tuple(out.shape)}", limit=limit)
    x = x.contiguous()
    kernel = getattr(_native(x), f"masked8_{CIPHERS[cipher].name}", None)
    if kernel is None:
        masks = [stream(k, torch.empty_like(out), operation=operation, cipher=cipher) for k in keys]
        return out.copy_(reference.masked8(x, masks))
    kernel(address(x), *keys, operation, address(out), x.numel())
    return out


def dequantise32(x: Tensor, exponent: int) -> Tensor:
    """Returns int32 numbers times 2^exponent as float32."""
    _check(exponent)
    native = _native(x)
    if native is None or x.dtype != torch.int32 or not x.is_contiguous():
        return reference.dequantise32(x, exponent)
    out = torch.empty(x.shape, dtype=torch.float32)
    native.dequantise32(address(x), 2.0**exponent, address(out), x.numel())
    return out


def add_three(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Returns a + b + c in the ring, for tensors of one shape."""
    native = _native(a)
    fits = all(x.dtype == torch.int32 and x.is_contiguous() and x.is_cpu for x in (a, b, c))
    if native is None or not fits or not a.shape == b.shape == c.shape:
        return reference.add_three(a, b, c)
    out = torch.empty_like(a)
    native.add_three32(address(a), address(b), address(c), address(out), a.numel())
    return out


def _native(x: Tensor) -> ModuleType | None:
    native = native_for(x)
    return native if hasattr(native, "summary32") else None


def _check(exponent: int) -> None:
    if abs(exponent) > MOST_EXPONENT:
        limit = f"allowed are {-MOST_EXPONENT} to {MOST_EXPONENT}"
        raise ConfigError(f"exponent={exponent}", limit=limit)
