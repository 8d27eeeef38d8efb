"""The random words of one call: every (key, operation, byte range) is drawn once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod

import torch
from torch import Tensor

from ..crypto import KeyRing
from ..kernels import stream

BLOCK = 64  # bytes: draws start at a block of either cipher
TOGETHER = 1 << 16  # bytes up to which one call, one buffer is faster than one for each draw

Form = tuple[tuple[int, ...], torch.dtype]

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
        [words] = self.draws(holders, [(tuple(shape), dtype)])
        return words

    def draws(self, holders: Collection[int], forms: Sequence[Form]) -> list[Tensor]:
        """Several draws, each from the next block on; small ones are made in one call."""
        group = frozenset(holders)
        start = self._places.get(group, 0)
        places = [start]
        for shape, dtype in forms:
            end = places[-1] + prod(shape) * dtype.itemsize
            if self._watch:
                self._watch(group, self.number, places[-1], end)
            places.append(-(-end // BLOCK) * BLOCK)
        self._places[group] = places[-1]
        if len(forms) > 1 and places[-1] - start <= TOGETHER:
            words = torch.empty((places[-1] - start) // 8, dtype=torch.int64)
            self._fill(group, words, start)
            return [_cut(words, at - start, *form) for at, form in zip(places, forms, strict=False)]
        made = [torch.empty(shape, dtype=dtype) for shape, dtype in forms]
        for at, words in zip(places, made, strict=False):
            self._fill(group, words, at)
        return made

    def _fill(self, group: frozenset[int], words: Tensor, offset: int) -> None:
        stream(self._keys.key(group).aes, words, operation=self.number, offset=offset)


def _cut(words: Tensor, offset: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """The tensor that begins at a byte of the words."""
    if dtype != words.dtype:
        words = words.view(dtype)
    offset //= dtype.itemsize
    return words[offset : offset + prod(shape)].view(shape)
