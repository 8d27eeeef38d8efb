"""What a fixed message between threads holds: copies, as its tensors are soon written to again."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import memmove
from sys import getrefcount

from torch import Tensor

from ..wire.fixed_message import FixedTensors
from ..wire.frames import Layout

_MOST_KEPT = 4  # copies of a message, that are kept for later ones
_UNUSED = 3  # references to a copy: the list's, the loop's, and the argument's


class Copies(list[Tensor]):
    """Tensors whose memory is used again once nobody refers to this list."""


class CopiedTensors(FixedTensors):
    """Tensors whose memory stays where it is, as a message to or from another thread."""

    def __init__(self, tensors: Sequence[Tensor], layout: Layout) -> None:
        super().__init__(tensors, layout)
        self._kept: list[Copies] = []

    def copies(self) -> Copies:
        """Returns copies of what the tensors hold now."""
        for kept in self._kept:
            if getrefcount(kept) == _UNUSED:
                copy_all(kept, self)
                return kept
        new = Copies(x.clone() for x in self)
        if len(self._kept) < _MOST_KEPT:
            self._kept.append(new)
        return new


def copy_all(places: Sequence[Tensor], tensors: Sequence[Tensor]) -> None:
    """Copies tensors to others of the same forms, all in the host's memory."""
    for place, x in zip(places, tensors, strict=True):
        if x.is_contiguous() and place.is_contiguous():
            memmove(place.data_ptr(), x.data_ptr(), x.nbytes)
        else:
            place.copy_(x)
