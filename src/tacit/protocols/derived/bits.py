"""Secret bits moved along the first dimension of their shape. Local."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...kernels import pack_bits, unpack_bits
from ..share import Bool, join_bits

if TYPE_CHECKING:
    from ..base import Protocol


def ones(p: Protocol, shape: Sequence[int]) -> Bool:
    """Public ones as a share."""
    return p.pack(torch.ones(tuple(shape), dtype=torch.bool))


def rows_of(bits: Bool) -> list[Bool]:
    """bits[0], bits[1], ... of bits one wide."""
    rows = {k: _rows(part[0], bits.shape) for k, part in bits.parts.items()}
    shape = bits.shape[1:]
    return [Bool({k: rows[k][i] for k in rows}, shape) for i in range(bits.shape[0])]


def _rows(words: Tensor, shape: Sequence[int]) -> list[Tensor]:
    """The planes of each row; where rows end with a word, a view."""
    count, size = shape[0], prod(shape[1:])
    if size % 64 == 0:
        return list(words.view(count, 1, size // 64))
    return [pack_bits(row).unsqueeze(0) for row in unpack_bits(words, shape, torch.uint8)]


def take(bits: Bool, index: Tensor) -> Bool:
    """bits[index], for a public vector of indices."""
    return bits.map(lambda values: values.index_select(1, index.to(values.device)))


def interleaved(columns: Sequence[Bool], tail: Bool | None = None) -> Bool:
    """Element i of each of the columns in turn, then of the next i; at the end `tail`."""

    def change(values: list[Tensor]) -> Tensor:
        mixed = torch.stack(values[: len(columns)], 2).flatten(1, 2)
        return torch.cat([mixed, *values[len(columns) :]], 1)

    return join_bits(change, [*columns, tail] if tail is not None else columns)
