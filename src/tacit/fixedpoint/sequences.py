"""Parts of sequences of values, for recurrent layers: steps, gates and weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .format import Format
from .value import Operand, Value, combined


def transposed(x: Operand | None) -> Value | Tensor:
    """Returns weights with their last two dimensions swapped."""
    if isinstance(x, Value):
        return x.map(lambda part: part.transpose(-1, -2))
    assert isinstance(x, Tensor)
    return x.transpose(-1, -2)


def step_of(x: Value, i: int) -> Value:
    """Returns element i of the first dimension."""
    return x.map(lambda part: part[i])


def narrowed(x: Value, start: int, length: int) -> Value:
    """Returns a part of the last dimension, such as one gate."""
    return x.map(lambda part: part.narrow(-1, start, length))


def stacked(n: Format, values: Sequence[Operand]) -> Value:
    """Returns values of one shape along a new first dimension."""
    return combined(n, list(values), torch.stack)
