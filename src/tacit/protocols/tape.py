"""The random words of one call: every (key, operation, byte range) is drawn once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod

import torch
from torch import Tensor

from ..crypto import KeyRing
from ..kernels import StreamKey, stream, stream_key
from ..transport import CPU

BLOCK = 64  # bytes: draws start at a block of either cipher
# Bytes up to which one buffer and one call are faster than one of each for every draw.
TOGETHER = {"cpu": 1 << 16, "cuda": 1 << 22}

Form = tuple[tuple[int, ...], torch.dtype]

# (parties that hold the key, operation, first byte, end): what a test may want to watch.
Watch = Callable[[frozenset[int], int, int, int], None]


class Source:
    """The keys of a party, for masks of one cipher that are made on one device."""

    def __init__(
        self, keys: KeyRing, cipher: str = "aes128-ctr", device: torch.device = CPU
    ) -> None:
        self.cipher, self.device = cipher, device
        self._keys = keys
        self._ready: dict[frozenset[int], bytes | StreamKey] = {}

    def fill(self, group: frozenset[int], words: Tensor, operation: int, offset: int) -> None:
        """Writes bytes of the stream of this group and operation to `words`."""
        key = self._ready.get(group)
        if key is None:
            key = self._ready[group] = self._key(group)
        stream(key, words, operation=operation, offset=offset, cipher=self.cipher)

    def _key(self, group: frozenset[int]) -> bytes | StreamKey:
        key = self._keys.key(group)
        if self.cipher != "chacha20":
            return key.aes
        return stream_key(key.chacha, self.device)


class Tape:
    """Masks that the holders of a key draw in the same order, without a message.

    The number of the call is the operation of the stream, and the place within it only grows:
    nothing is ever drawn twice in a session.
    """

    def __init__(self, source: Source, number: int, watch: Watch | None = None) -> None:
        self.number = number
        self._source, self._watch = source, watch
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
        fill, device = self._source.fill, self._source.device
        if len(forms) > 1 and places[-1] - start <= TOGETHER[device.type]:
            words = torch.empty((places[-1] - start) // 8, dtype=torch.int64, device=device)
            fill(group, words, self.number, start)
            return [_cut(words, at - start, *form) for at, form in zip(places, forms, strict=False)]
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in forms]
        for at, words in zip(places, made, strict=False):
            fill(group, words, self.number, at)
        return made


def _cut(words: Tensor, offset: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """The tensor that begins at a byte of the words."""
    if dtype != words.dtype:
        words = words.view(dtype)
    offset //= dtype.itemsize
    return words[offset : offset + prod(shape)].view(shape)
