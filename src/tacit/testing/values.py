"""The values that the checks compute on, with edge cases, and exact references.

Values come from streams with public keys: every party draws the same ones, and nothing is secret.
References compute on Python's integers in numpy arrays of objects, and wrap at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..kernels import pack_bits, stream
from ..protocols import Arith, Bool, Protocol
from ..ring import Ring

Integers = Any  # a numpy array of Python integers
SIZES = (1, 64, 65, 130)


def words(seed: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns uniform words, the same at every party."""
    key = sha256(f"tacit.testing {seed}".encode()).digest()[:16]
    return stream(key, torch.empty(tuple(shape), dtype=dtype), operation=0)


def edges(ring: Ring, bits: int | None = None) -> list[int]:
    """Returns 0, -1, 1 and values at the ends of the range: the whole ring, or |x| < 2^bits."""
    if bits is None:
        return [0, -1, 1, ring.low, ring.low + 1, ring.high, ring.high - 1]
    most = (1 << bits) - 1
    return [0, -1, 1, most, -most, most - 1, 1 - most]


def ring_values(ring: Ring, shape: Sequence[int], seed: str, bits: int | None = None) -> Tensor:
    """Returns values in the whole ring, or |x| < 2^bits; every third one is an edge case."""
    uniform = words(seed, shape, ring.dtype)
    if bits is not None:
        uniform = (uniform >> (ring.bits - 1 - bits)).clamp(min=1 - (1 << bits))
    special = torch.tensor(edges(ring, bits), dtype=ring.dtype)
    count = uniform.numel()
    chosen = special[torch.arange(count) // 3 % len(special)].view(uniform.shape)
    third = (torch.arange(count) % 3 == 0).view(uniform.shape)
    return torch.where(third, chosen, uniform)


def bit_values(shape: Sequence[int], seed: str, width: int = 1) -> Tensor:
    """Returns zeros and ones of shape (width, *shape)."""
    return words(seed, (width, *shape), torch.int64) & 1


def secret(p: Protocol, value: Tensor, owner: int = 0, *, limit: int | None = None) -> Arith:
    """Returns the value as a secret of `owner`, modulo the number of parties."""
    owner %= p.parties
    mine = value if p.rank == owner else None
    return p.share(mine, owner, shape=tuple(value.shape), limit=limit)


def small(p: Protocol, shape: Sequence[int], seed: str, bits: int) -> tuple[Tensor, Arith]:
    """Returns values with |x| < 2^bits, and the same as a secret with that limit."""
    value = ring_values(p.ring, shape, seed, bits)
    return value, secret(p, value, len(seed), limit=(1 << bits) - 1)


def secret_bits(p: Protocol, bits: Tensor, owner: int = 0) -> Bool:
    """Returns bits of shape (width, *shape) as a secret of `owner`."""
    owner %= p.parties
    planes = torch.stack([pack_bits(plane) for plane in bits])
    mine = planes if p.rank == owner else None
    return p.share_bits(mine, owner, tuple(bits.shape[1:]), len(bits))


def integers(tensor: Tensor) -> Integers:
    """Returns the same values as Python's integers."""
    flat = np.array([*map(int, tensor.reshape(-1).tolist()), None], dtype=object)[:-1]
    return flat.reshape(tuple(tensor.shape))


def wrapped(ring: Ring, values: Integers) -> Tensor:
    """Returns integers as ring elements, mod 2^k."""
    array = np.asarray(values, dtype=object)
    flat = [ring.wrap(int(value)) for value in array.reshape(-1)]
    return torch.tensor(flat, dtype=ring.dtype).view(array.shape)
