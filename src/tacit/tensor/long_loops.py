"""Loops over operations on secrets that take long, shown with the time that is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from ..protocols.loops import Item
from .secret import SecretTensor


def counted(items: Sequence[Item], name: str, x: Tensor) -> Iterable[Item]:
    """Returns the items of a loop whose work is on x; if x is secret, its session counts them."""
    if not isinstance(x, SecretTensor):
        return items
    return x.numbers.protocol.context.loops.counted(items, name, len(items))
