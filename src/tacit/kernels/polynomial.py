"""Hashes of what parties compare: a polynomial at two secret points, modulo 2^61 - 1.

The 32-bit words x_0, x_1, ... of a tensor are the coefficients of x_0 r + x_1 r^2 + ... If tensors
of n words differ, their polynomials are equal at no more than n points r, so at both of two random
points with a probability of (n / 2^61)^2. Those of many tensors add up, each at its own points.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError
from .backend import gpu_for
from .stream import StreamKey, check_stream, key_words, stream

PRIME = (1 << 61) - 1
POINTS = 2
POINT_BLOCK = 64  # bytes of a stream that the points of one tensor take
_LANES = 4096  # coefficients that numpy takes at one time
_LOW = np.uint64((1 << 32) - 1)


def add_polynomial(
    key: bytes | StreamKey,
    values: Tensor,
    totals: Tensor,
    *,
    operation: int,
    offset: int = 0,
    cipher: str = "aes128-ctr",
) -> Tensor:
    """Adds the polynomial of the 32-bit words of `values`, at two points, to `totals`.

    The points are two words of 64 bits of the stream of (key, operation), from byte `offset` on,
    a multiple of 64, without their upper three bits. Returns `totals`, int64 of shape (2, 2): for
    each point a sum of low words of 32 bits, and a sum of the words above. `polynomials` reads it.
    """
    check_stream(values, operation, offset, cipher)
    if offset % POINT_BLOCK or totals.shape != (POINTS, 2) or totals.dtype != torch.int64:
        limit = f"an offset that is a multiple of {POINT_BLOCK}, and (2, 2) int64 are needed"
        raise ConfigError(f"offset={offset}, totals of shape {tuple(totals.shape)}", limit=limit)
    if (gpu := gpu_for(values, totals)) and cipher == "chacha20":
        return gpu.chacha20_polynomial(key_words(key, values), values, totals, operation, offset)
    points = torch.empty(POINTS, dtype=torch.int64)
    host = key.words.cpu().numpy().tobytes() if isinstance(key, StreamKey) else key
    stream(host, points, operation=operation, offset=offset, cipher=cipher)
    words = values.detach().cpu().view(-1).view(torch.int32).numpy().view("<u4").astype("<u8")
    found = [_polynomial(words, point & PRIME) for point in points.tolist()]
    return totals.add_(torch.tensor([[x & 0xFFFFFFFF, x >> 32] for x in found]).to(totals.device))


def polynomials(totals: Tensor) -> list[int]:
    """Returns the sums of polynomials at both points, modulo 2^61 - 1."""
    return [(low + (high << 32)) % PRIME for low, high in totals.tolist()]


def _polynomial(words: np.ndarray, point: int) -> int:
    """Returns the polynomial at a point, from `_LANES` polynomials in r^_LANES, side by side."""
    rows = np.zeros((-(-len(words) // _LANES), _LANES), dtype=np.uint64)
    rows.reshape(-1)[: len(words)] = words
    lanes, step = (
        np.zeros(_LANES, dtype=np.uint64),
        np.full(1, pow(point, _LANES, PRIME), np.uint64),
    )
    for row in rows[::-1]:
        lanes = _reduced(_times(lanes, step) + row)
    total, power = 0, point
    for lane in lanes.tolist():
        total, power = (total + lane * power) % PRIME, power * point % PRIME
    return total


def _times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns a b modulo the prime, below 2^63; a and b are below 2^61.

    In halves of 32 bits a b = 2^64 h + 2^32 m + l, where 2^64 counts as 8 and 2^61 as 1.
    """
    shift, (a_high, a_low), (b_high, b_low) = np.uint64(32), _halves(a), _halves(b)
    middle = a_high * b_low + a_low * b_high
    high, low = a_high * b_high, a_low * b_low
    middle_high, middle_low = middle >> np.uint64(29), middle & np.uint64((1 << 29) - 1)
    return (high << np.uint64(3)) + middle_high + (middle_low << shift) + _reduced(low)


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x >> np.uint64(32), x & _LOW


def _reduced(x: np.ndarray) -> np.ndarray:
    """Returns x modulo the prime, below 2^61."""
    x = (x & np.uint64(PRIME)) + (x >> np.uint64(61))
    return np.where(x >= np.uint64(PRIME), x - np.uint64(PRIME), x)
