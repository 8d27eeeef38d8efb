"""The random words of one call: every (key, operation, byte range) is drawn once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ..crypto import KeyRing
from ..errors import ProtocolError
from ..kernels import StreamKey, blank_key, mask, stream, stream_key
from ..transport import CPU

BLOCK = 64  # bytes: draws start at a block of either cipher
# Bytes up to which all draws of a call share a buffer, which lives as long as any of them does.
TOGETHER = {"cpu": 1 << 20, "cuda": 1 << 22}

Form = tuple[tuple[int, ...], torch.dtype]
Keys = dict[frozenset[int], bytes | StreamKey]

# (parties that hold the key, operation, first byte, end): what a test may want to watch.
Watch = Callable[[frozenset[int], int, int, int], None]


class Source:
    """The keys of a party, for masks of one cipher that are made on one device."""

    def __init__(
        self, keys: KeyRing, cipher: str = "aes128-ctr", device: torch.device = CPU
    ) -> None:
        self.cipher, self.device = cipher, device
        self._keys = keys
        self._ready: Keys = {}
        self._is_complete = False  # no group joins those that are ready

    def fill(self, group: frozenset[int], words: Tensor, operation: int, offset: int) -> None:
        """Writes bytes of the stream of this group and operation to `words`."""
        key = self._ready.get(group) or self._key(group)
        stream(key, words, operation=operation, offset=offset, cipher=self.cipher)

    def mask(
        self, group: frozenset[int], values: Tensor, how: str, operation: int, offset: int
    ) -> None:
        """Combines `values` with what `fill` would write."""
        key = self._ready.get(group) or self._key(group)
        mask(key, values, how, operation=operation, offset=offset, cipher=self.cipher)

    def blank_keys(self) -> Keys:
        """Room on the device for another key of each group that was drawn from so far."""
        return {group: blank_key(self.device) for group in self._ready}

    def renew(self, keys: Keys, operation: int) -> None:
        """Fills the room with keys that come of the groups' streams: all holders make the same."""
        for group, key in keys.items():
            assert isinstance(key, StreamKey)
            self.fill(group, key.words, operation, 0)

    @contextmanager
    def under(self, keys: Keys) -> Iterator[None]:
        """Within, masks are drawn from these keys only."""
        before, self._ready, self._is_complete = self._ready, keys, True
        try:
            yield
        finally:
            self._ready, self._is_complete = before, False

    def _key(self, group: frozenset[int]) -> bytes | StreamKey:
        if self._is_complete:
            raise ProtocolError(f"no key is ready for masks of the parties {sorted(group)}")
        key = self._keys.key(group)
        is_aes = self.cipher == "aes128-ctr"
        ready = self._ready[group] = key.aes if is_aes else stream_key(key.chacha, self.device)
        return ready


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
        group, number = frozenset(holders), self.number
        cuts, size, kinds = _cuts(tuple(forms))
        start = self._take(group, cuts, size)
        fill, device = self._source.fill, self._source.device
        if len(cuts) > 1 and size <= TOGETHER[device.type]:
            words = torch.empty(size // 8, dtype=torch.int64, device=device)
            fill(group, words, number, start)
            views = {torch.int64: words}
            for dtype in kinds:
                views[dtype] = words.view(dtype)
            return [views[c.dtype].as_strided(c.shape, c.stride, c.offset) for c in cuts]
        made = [torch.empty(cut.shape, dtype=cut.dtype, device=device) for cut in cuts]
        for cut, words in zip(cuts, made, strict=True):
            fill(group, words, number, start + cut.start)
        return made

    def mask(self, holders: Collection[int], values: Tensor, how: str) -> Tensor:
        """`values` plus, minus or xor what `draw` would give for them ("add", "sub", "xor").

        For masks that are needed once: they are never in memory. `values` is overwritten.
        """
        group, values = frozenset(holders), values.contiguous()
        cuts, size, _ = _cuts(((tuple(values.shape), values.dtype),))
        start = self._take(group, cuts, size)
        self._source.mask(group, values, how, self.number, start)
        return values

    def _take(self, group: frozenset[int], cuts: Sequence[Cut], size: int) -> int:
        """Where the next bytes of a group's stream begin, which nobody takes after this."""
        start = self._places.get(group, 0)
        self._places[group] = start + size
        if self._watch:
            for cut in cuts:
                self._watch(group, self.number, start + cut.start, start + cut.end)
        return start


class Cut(NamedTuple):
    """Where a draw lies among those of one call: its bytes, and how they are read."""

    start: int
    end: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]
    offset: int  # in elements


@lru_cache(maxsize=1024)
def _cuts(forms: tuple[Form, ...]) -> tuple[tuple[Cut, ...], int, tuple[torch.dtype, ...]]:
    """The places of draws of these forms one after the other, the bytes they take in all, and the
    types other than int64 that they have."""
    cuts, place = [], 0
    for shape, dtype in forms:
        end = place + prod(shape) * dtype.itemsize
        stride = torch.empty(shape, device="meta").stride()
        cuts.append(Cut(place, end, tuple(shape), dtype, stride, place // dtype.itemsize))
        place = -(-end // BLOCK) * BLOCK
    return tuple(cuts), place, tuple({cut.dtype for cut in cuts} - {torch.int64})
