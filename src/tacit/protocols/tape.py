"""The random words of one call: every (key, operation, byte range) is drawn once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from ..crypto import KeyRing
from ..kernels import stream

BLOCK = 64  # bytes: draws start at a block of either cipher

# (parties that hold the key, operation, first byte, end): what a test may want to watch.
Watch = Callable[[frozenset[int], int, int, int], None]


class Tape:
    """Masks that the holders of a key draw in the same order, without a message.

    The number of the call is the operation of the stream, and the place within it only grows:
    nothing is ever drawn twice in a session.
    """

    def __init__(self, keys: KeyRing, number: int, watch: Watch | None = None) -> None:
        self.number = number
        self._keys, self._watch = keys, watch
        self._places: dict[frozenset[int], int] = {}

    def draw(self, holders: Collection[int], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Uniform words that exactly the parties in `holders` know; called by each of them."""
        group = frozenset(holders)
        out = torch.empty(tuple(shape), dtype=dtype)
        start = self._places.get(group, 0)
        end = start + out.nbytes
        self._places[group] = -(-end // BLOCK) * BLOCK
        if self._watch:
            self._watch(group, self.number, start, end)
        return stream(self._keys.key(group).aes, out, operation=self.number, offset=start)
