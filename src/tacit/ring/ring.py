"""The rings Z_2^32 and Z_2^64, stored as int32 and int64 tensors read as signed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..errors import ConfigError


@dataclass(frozen=True)
class Ring:
    """Integers mod 2^bits; `dtype` is the signed torch dtype that stores them and wraps."""

    bits: int
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """The size of an element."""
        return self.bits // 8

    @property
    def low(self) -> int:
        """The smallest signed value, -2^(bits-1)."""
        return -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """The largest signed value, 2^(bits-1) - 1."""
        return (1 << (self.bits - 1)) - 1

    def wrap(self, value: int) -> int:
        """Returns the integer in [low, high] that equals `value` mod 2^bits."""
        return (value - self.low) % (1 << self.bits) + self.low


WORD = 64  # bits of a word of a bit plane

RING32 = Ring(32, torch.int32)
RING64 = Ring(64, torch.int64)


def ring_of(*tensors: torch.Tensor) -> Ring:
    """Returns the ring of all these tensors; raises unless all are int32 or all int64."""
    dtype = tensors[0].dtype
    ring = RING64 if dtype == torch.int64 else RING32 if dtype == torch.int32 else None
    for tensor in tensors:
        if tensor.dtype != dtype:
            ring = None
    if ring is not None:
        return ring
    names = ", ".join(sorted({str(t.dtype) for t in tensors}))
    raise ConfigError(f"dtype {names}", limit="ring tensors are all int32 or all int64")


def num_words(count: int) -> int:
    """Returns how many words of a bit plane hold one bit of each of `count` elements."""
    return -(-count // WORD)
