"""The random words of one call, from keys that parties share: no word is drawn twice.

The holders of a key draw the same words in the same order without a message. A word is identified
by (key, number of the call, byte in the call's stream); numbers and bytes only grow.
"""

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

BLOCK_BYTES = 64  # every draw starts at a block of either cipher
# Up to so many bytes all draws of a call share a buffer, which lives as long as any of them does.
SHARED_BUFFER_BYTES = {"cpu": 1 << 20, "cuda": 1 << 22}

Layout = tuple[tuple[int, ...], torch.dtype]  # shape and dtype of a draw
Keys = dict[frozenset[int], bytes | StreamKey]

# Called with (parties that hold the key, operation, first byte, end) of each draw, for tests.
DrawObserver = Callable[[frozenset[int], int, int, int], None]


class KeyStreams:
    """The keys of a party as streams of words, for one cipher and one device.

    number: how many calls began, equal at all parties; each gets words of its own. observer: a test
    that watches all draws.
    """

    def __init__(
        self, keys: KeyRing, cipher: str = "aes128-ctr", device: torch.device = CPU
    ) -> None:
        self.cipher, self.device = cipher, device
        self._keys = keys
        self._ready: Keys = {}
        self._is_complete = False  # no other group may be drawn from than those that are ready
        self.number = 0
        self.observer: DrawObserver | None = None

    def new_number(self) -> int:
        """Returns the number of the next call."""
        self.number += 1
        return self.number

    def new_call(self) -> CallRandomness:
        """Returns the randomness of the next call."""
        return CallRandomness(self, self.new_number(), self.observer)

    def fill(self, group: frozenset[int], words: Tensor, operation: int, offset: int) -> None:
        """Writes bytes of the stream of this group and operation to `words`."""
        key = self._ready.get(group) or self._key(group)
        stream(key, words, operation=operation, offset=offset, cipher=self.cipher)

    def mask(
        self, group: frozenset[int], values: Tensor, how: str, operation: int, offset: int
    ) -> None:
        """Adds to, subtracts from, or xors into `values` what `fill` would write."""
        key = self._ready.get(group) or self._key(group)
        mask(key, values, how, operation=operation, offset=offset, cipher=self.cipher)

    def blank_keys(self) -> Keys:
        """Returns memory on the device for another key of each group that was drawn from so far."""
        return {group: blank_key(self.device) for group in self._ready}

    def renew(self, keys: Keys, operation: int) -> None:
        """Writes keys from the groups' streams to that memory; all holders write the same."""
        for group, key in keys.items():
            assert isinstance(key, StreamKey)
            self.fill(group, key.words, operation, 0)

    @contextmanager
    def using(self, keys: Keys) -> Iterator[None]:
        """Within the block, words are drawn from these keys only."""
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


class CallRandomness:
    """The random words of one call.

    The number of the call is the operation of the stream, and the offset in it only grows: no word
    is drawn twice in a session.
    """

    def __init__(
        self, streams: KeyStreams, number: int, observer: DrawObserver | None = None
    ) -> None:
        self.number = number
        self._streams, self._observer = streams, observer
        self._offsets: dict[frozenset[int], int] = {}

    def draw(self, holders: Collection[int], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Returns uniform words that exactly the parties in `holders` know; each of them calls."""
        [words] = self.draws(holders, [(tuple(shape), dtype)])
        return words

    def draws(self, holders: Collection[int], layouts: Sequence[Layout]) -> list[Tensor]:
        """Returns several draws, each from the next block on; small ones share a buffer."""
        group, number = frozenset(holders), self.number
        segments, size, dtypes = _segments(tuple(layouts))
        start = self._take(group, segments, size)
        fill, device = self._streams.fill, self._streams.device
        if len(segments) > 1 and size <= SHARED_BUFFER_BYTES[device.type]:
            words = torch.empty(size // 8, dtype=torch.int64, device=device)
            fill(group, words, number, start)
            views = {torch.int64: words}
            for dtype in dtypes:
                views[dtype] = words.view(dtype)
            return [views[s.dtype].as_strided(s.shape, s.stride, s.offset) for s in segments]
        drawn = [torch.empty(s.shape, dtype=s.dtype, device=device) for s in segments]
        for segment, words in zip(segments, drawn, strict=True):
            fill(group, words, number, start + segment.start)
        return drawn

    def mask(self, holders: Collection[int], values: Tensor, how: str) -> Tensor:
        """Returns `values` plus, minus or xor what `draw` would return ("add", "sub", "xor").

        For masks that are needed once: they are never in memory. `values` is overwritten.
        """
        group, values = frozenset(holders), values.contiguous()
        segments, size, _ = _segments(((tuple(values.shape), values.dtype),))
        start = self._take(group, segments, size)
        self._streams.mask(group, values, how, self.number, start)
        return values

    def _take(self, group: frozenset[int], segments: Sequence[Segment], size: int) -> int:
        """Reserves the next bytes of a group's stream; returns where they start."""
        start = self._offsets.get(group, 0)
        self._offsets[group] = start + size
        if self._observer:
            for segment in segments:
                self._observer(group, self.number, start + segment.start, start + segment.end)
        return start


class Segment(NamedTuple):
    """The bytes of one draw among several, and how they are read."""

    start: int
    end: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]
    offset: int  # in elements


@lru_cache(maxsize=1024)
def _segments(
    layouts: tuple[Layout, ...],
) -> tuple[tuple[Segment, ...], int, tuple[torch.dtype, ...]]:
    """The segments of consecutive draws, the bytes of all, and their dtypes other than int64."""
    segments, place = [], 0
    for shape, dtype in layouts:
        end = place + prod(shape) * dtype.itemsize
        stride = torch.empty(shape, device="meta").stride()
        segments.append(Segment(place, end, tuple(shape), dtype, stride, place // dtype.itemsize))
        place = -(-end // BLOCK_BYTES) * BLOCK_BYTES
    return tuple(segments), place, tuple({s.dtype for s in segments} - {torch.int64})
