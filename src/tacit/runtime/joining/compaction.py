"""Rows with a secret mark moved to the front of a table, without telling which they are.

The compaction of Goodrich (Data-Oblivious External-Memory Algorithms for the Compaction, Selection,
and Sorting of Data, SPAA 2011): a marked row has to move up by as many places as there are rows
without a mark before it. Stage i moves a row by 2^i places if bit i of that number is set. In this
order of the stages, no two marked rows meet.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...tensor import SecretTensor
from ...tensor.long_loops import counted


def compacted(table: Tensor, marked: SecretTensor) -> Tensor:
    """Returns the marked rows, in their order, before rows of zeros.

    table: (rows, columns), zeros in rows without a mark. marked: (rows,), integers 0 or 1. The
    rounds of a product and a comparison, and two for each of the log2(rows) stages.
    """
    if table.shape[0] < 2:
        return table
    bits = _bits_of_moves(marked)
    stages = bits.shape[1]
    for stage in counted(range(stages), "moving matches", marked):
        bit, bits = bits[:, :1], bits[:, 1:]
        moved = torch.where(bit, table, 0.0)
        table = table - moved + _up(moved, 1 << stage)
        if bits.shape[1]:
            carried = bits & bit
            bits = bits ^ carried ^ _up(carried, 1 << stage)
    return table


def _bits_of_moves(marked: SecretTensor) -> Tensor:
    """By how many places each marked row moves, as bits (rows, stages); zeros for the others."""
    rows, n = marked.shape[0], marked.numbers
    before = torch.arange(1, rows + 1) - marked.cumsum(0)  # rows without a mark
    places = marked * before
    assert isinstance(places, SecretTensor)
    bits = n.bits_of_integers(places.value, (rows - 1).bit_length())
    return torch.stack([SecretTensor(bit, n) for bit in bits], 1)


def _up(x: Tensor, places: int) -> Tensor:
    """The rows further up, and zeros below."""
    return torch.cat([x[places:], torch.zeros_like(x[:places])])
