"""Values that are dealt or opened: their shapes, and how they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ...kernels import bit_planes
from ...ring import num_words
from ...transport import Spec
from ..core import ProtocolCore
from ..randomness import Layout


class ValueSpec(NamedTuple):
    """Shape and dtype of a value that is dealt or opened: ring elements, or planes of bits.

    width: if not 0, only that many low bits of the ring elements matter. Only they are sent, as
    planes, and the receiver gets the planes.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    bits: bool = False
    width: int = 0

    def packed(self, value: Tensor) -> Tensor:
        """Returns the value as it is sent."""
        return bit_planes(value, self.width) if self.width else value

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def num_bits(self) -> int:
        """How many bits are sent."""
        if self.width:
            return 64 * self.width * num_words(self.numel)
        return 8 * self.dtype.itemsize * self.numel

    def part(self, size: int) -> ValueSpec:
        """Returns the spec of so many elements in a row."""
        return ValueSpec((size,), self.dtype, self.bits)


ValueSpecs = tuple[ValueSpec, ...]


def ring_spec(p: ProtocolCore, shape: Sequence[int], width: int = 0) -> ValueSpec:
    """Returns the spec of ring elements, or of their `width` low bits."""
    return ValueSpec(tuple(shape), p.ring.dtype, False, width)


def plane_spec(rows: int, words: int) -> ValueSpec:
    """Returns the spec of planes of bits."""
    return ValueSpec((rows, words), torch.int64, True)


@lru_cache(maxsize=1024)
def layouts(specs: ValueSpecs) -> tuple[Layout, ...]:
    return tuple((spec.shape, spec.dtype) for spec in specs)


@lru_cache(maxsize=1024)
def messages(specs: ValueSpecs) -> list[Spec]:
    """What the receiver of these values expects on the wire."""
    packed = [(spec.width, num_words(prod(spec.shape))) for spec in specs]
    return [
        Spec(shape, torch.int64) if spec.width else Spec(spec.shape, spec.dtype)
        for spec, shape in zip(specs, packed, strict=True)
    ]


def total(spec: ValueSpec, values: Sequence[Tensor]) -> Tensor:
    """Returns the sum of ring elements, or the exclusive or of planes."""
    if len(values) == 1:
        return values[0]
    return reduce(torch.bitwise_xor if spec.bits else torch.add, values)
