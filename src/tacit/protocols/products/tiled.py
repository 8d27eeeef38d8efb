"""A product under masks that is computed while it is sent: see NOTE [tiles]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ...transport import Tiled
from ..randomness import CallRandomness, Stream

Masks = Sequence[tuple[Stream, str]]  # streams, and "add" or "sub" for what their words do


def tiled_product(
    shape: Sequence[int],
    dtype: torch.dtype,
    tiles: Iterator[Tensor],
    randomness: CallRandomness,
    masks: Masks,
) -> Tiled:
    """Returns a product of which `tiles` computes the rows, under the masks of the whole."""
    whole = torch.empty(tuple(shape), dtype=dtype)
    reserve = randomness.reserved_mask
    hides = [reserve(source, whole.nbytes, how) for source, how in masks]
    return Tiled(whole, _computing(whole, tiles, hides))


def _computing(
    whole: Tensor, tiles: Iterator[Tensor], hides: Sequence[Callable[[Tensor, int], None]]
) -> Iterator[int]:
    """Writes the rows of each tile, under its masks; yields how many rows are written."""
    end, row_bytes = 0, whole[0].nbytes
    for rows in tiles:
        start, end = end, end + len(rows)
        place = whole[start:end].copy_(rows)
        for hide in hides:
            hide(place, start * row_bytes)
        yield end
