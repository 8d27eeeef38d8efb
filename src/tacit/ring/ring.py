"""The rings Z_2^32 and Z_2^64, stored as int32 and int64 tensors read as signed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..errors import ConfigError


@dataclass(frozen=True)
class Ring:
    """Integers mod 2^bits; `dtype` is the signed torch type that stores them and wraps."""

    bits: int
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        return (1 << (self.bits - 1)) - 1

    def wrap(self, value: int) -> int:
        """The representative of a Python integer in [low, high]."""
        return (value - self.low) % (1 << self.bits) + self.low


RING32 = Ring(32, torch.int32)
RING64 = Ring(64, torch.int64)


def ring_of(*tensors: torch.Tensor) -> Ring:
    """The ring that all the tensors live in."""
    dtype = tensors[0].dtype
    ring = RING64 if dtype == torch.int64 else RING32 if dtype == torch.int32 else None
    for tensor in tensors:
        if tensor.dtype != dtype:
            ring = None
    if ring is not None:
        return ring
    names = ", ".join(sorted({str(t.dtype) for t in tensors}))
    raise ConfigError(f"dtype {names}: ring tensors are all int32 or all int64")
