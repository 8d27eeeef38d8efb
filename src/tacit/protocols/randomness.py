"""The random words of one call, from keys that parties share: no word hides two messages.

The holders of a key draw the same words in the same order without a message. A word is identified
by (key, stream, number of the call, byte in the stream); numbers and bytes only grow.

NOTE [one message for each mask]: a stream of masks names the sender and the receivers of the
messages that its words hide, and has a key of its own. The sender alone hides messages with it, and
it begins each call once, so no two messages that a party receives are hidden by the same words.
This holds whatever programs the parties run: if they fall out of step, they compute nonsense, but a
party that runs another operation under the same number hides its messages with other streams. All
other holders of the key use the words as terms that cancel, or as parts of their shares. The use
of the words ("input", "open" ...) is part of the name too, so that a part which one party reveals
holds no word that hides a message of another kind of operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ..crypto import KeyRing, lock, wipe
from ..errors import ProtocolError
from ..kernels import StreamKey, add_checksum, blank_key, mask, stream, stream_key, streams
from ..kernels.checksum import num_parts
from ..kernels.stream import CIPHERS
from ..transport import CPU

BLOCK_BYTES = 64  # every draw starts at a block of either cipher
# Up to so many bytes all draws of a call share a buffer, which lives as long as any of them does.
SHARED_BUFFER_BYTES = {"cpu": 1 << 20, "cuda": 1 << 22}

Layout = tuple[tuple[int, ...], torch.dtype]  # shape and dtype of a draw


class Stream(NamedTuple):
    """A stream of words: who holds its key, and what the words are used for.

    sender, receivers: of the messages that the words hide; None if they hide no message.
    """

    holders: frozenset[int]
    use: str
    sender: int | None = None
    receivers: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """What its key is bound to."""
        if self.sender is None:
            return self.use
        return f"{self.use}|{self.sender}->{','.join(map(str, self.receivers))}"


@cache
def mask_stream(use: str, sender: int, helper: int, *receivers: int) -> Stream:
    """Returns the stream of the masks on what a sender sends; it and a helper hold the key."""
    holders = frozenset((sender, helper))
    if len(holders) != 2 or not receivers or holders & {*receivers}:
        raise ProtocolError(f"masks of {sender} and {helper} cannot hide messages to {receivers}")
    return Stream(holders, use, sender, receivers)


@cache
def common_stream(use: str, *holders: int) -> Stream:
    """Returns the stream of words that hide no message: all holders use them alike."""
    return Stream(frozenset(holders), use)


Keys = dict[Stream, bytes | StreamKey]
NEW_KEY = "new key of "  # the use of words that become the key of another stream


class KeyStreams:
    """The keys of a party as streams of words, for one cipher and one device.

    number: how many calls began, equal at all parties; each gets words of its own.
    marked: what a number is given out as; while a call is recorded, one that can be recognised.
    """

    marked: Callable[[int], int] = int

    def __init__(
        self, keys: KeyRing, cipher: str = "aes128-ctr", device: torch.device = CPU
    ) -> None:
        self.cipher, self.device = cipher, device
        self._keys = keys
        self._ready: Keys = {}
        self._blank: list[Keys] = []  # keys that were made on the device
        self._is_complete = False  # no other stream may be drawn from than those that are ready
        self.number = 0

    def new_number(self) -> int:
        """Returns the number of the next call."""
        self.number += 1
        return self.marked(self.number)

    def new_call(self) -> CallRandomness:
        """Returns the randomness of the next call."""
        return CallRandomness(self, self.new_number())

    def fill(self, source: Stream, words: Tensor, operation: int, offset: int) -> None:
        """Writes bytes of a stream, of the words for this operation, to `words`."""
        key = self._ready.get(source) or self._key(source)
        stream(key, words, operation=operation, offset=offset, cipher=self.cipher)

    def fill_many(
        self,
        sources: Sequence[Stream],
        words: Tensor,
        sizes: Sequence[int],
        operation: int,
        offsets: Sequence[int],
    ) -> None:
        """Writes bytes of several streams to `words`, `sizes` of each."""
        keys = [self._ready.get(source) or self._key(source) for source in sources]
        streams(keys, words, sizes, operation=operation, offsets=offsets, cipher=self.cipher)

    def mask(self, source: Stream, values: Tensor, how: str, operation: int, offset: int) -> None:
        """Adds to, subtracts from, or xors into `values` what `fill` would write."""
        key = self._ready.get(source) or self._key(source)
        mask(key, values, how, operation=operation, offset=offset, cipher=self.cipher)

    def add_checksum(
        self,
        table: Tensor,
        source: Stream,
        values: Tensor,
        total: Tensor,
        operation: int,
        offset: int,
    ) -> None:
        """Adds to `total` the checksum of `values`, with factors out of a stream."""
        key = self._ready.get(source) or self._key(source)
        where = {"operation": operation, "offset": offset}
        add_checksum(table, key, values, total, **where, cipher=self.cipher)

    def blank_keys(self) -> Keys:
        """Returns memory on the device for another key of each stream drawn from so far."""
        own = [source for source in self._ready if not source.use.startswith(NEW_KEY)]
        keys: Keys = {source: blank_key(self.device) for source in own}
        self._blank.append(keys)
        return keys

    def renew(self, keys: Keys, operation: int) -> None:
        """Writes new keys to that memory; all holders of a stream's key write the same."""
        for source, key in keys.items():
            assert isinstance(key, StreamKey)
            self.fill(Stream(source.holders, NEW_KEY + source.label), key.words, operation, 0)

    @contextmanager
    def using(self, keys: Keys) -> Iterator[None]:
        """Within the block, words are drawn from these keys only."""
        before, self._ready, self._is_complete = self._ready, keys, True
        try:
            yield
        finally:
            self._ready, self._is_complete = before, False

    def wipe(self) -> None:
        """Overwrites all keys of streams, at the end of a session; nothing can be drawn then."""
        for keys in (self._ready, *self._blank):
            for key in keys.values():
                if isinstance(key, StreamKey):
                    key.words.zero_()
                    key = key.key or b""
                wipe(key)
        self._ready = {}  # zeros must never be the key of a mask; blank keys are renewed before use

    def _key(self, source: Stream) -> bytes | StreamKey:
        if self._is_complete:
            raise ProtocolError(
                f"no key is ready for masks of the parties {sorted(source.holders)}"
            )
        key, size = self._keys.key(source.holders), CIPHERS[self.cipher].key_bytes
        derived = lock(key.derive(f"{self.cipher}|{source.label}", size))
        is_aes = self.cipher == "aes128-ctr"
        ready = self._ready[source] = derived if is_aes else stream_key(derived, self.device)
        return ready


class CallRandomness:
    """The random words of one call.

    The number of the call is the operation of each stream, and the offset in it only grows: no word
    is drawn twice in a session. See NOTE [one message for each mask].
    """

    def __init__(self, streams: KeyStreams, number: int) -> None:
        self.number = number
        self._streams = streams
        self._offsets: dict[Stream, int] = {}

    def draw(self, source: Stream, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Returns uniform words that exactly the holders of a stream know; each of them calls."""
        [words] = self.draws(source, [(tuple(shape), dtype)])
        return words

    def draws(self, source: Stream, layouts: Sequence[Layout]) -> list[Tensor]:
        """Returns several draws, each from the next block on; small ones share a buffer."""
        number = self.number
        segments, size, dtypes = _segments(tuple(layouts))
        start = self._take(source, size)
        fill, device = self._streams.fill, self._streams.device
        if len(segments) > 1 and size <= SHARED_BUFFER_BYTES[device.type]:
            words = torch.empty(size // 8, dtype=torch.int64, device=device)
            fill(source, words, number, start)
            return _read(words, segments, dtypes)
        drawn = [torch.empty(s.shape, dtype=s.dtype, device=device) for s in segments]
        for segment, words in zip(segments, drawn, strict=True):
            fill(source, words, number, start + segment.start)
        return drawn

    def draws_of(
        self, sources: Sequence[Stream], layouts: Sequence[Sequence[Layout]]
    ) -> list[list[Tensor]]:
        """Returns, for each of several streams, what `draws` returns; small ones at one time."""
        device = self._streams.device
        plans = [_segments(tuple(of)) for of in layouts]
        sizes = [size for _, size, _ in plans]
        is_small = all(sizes) and sum(sizes) <= SHARED_BUFFER_BYTES[device.type]
        if device.type == "cpu" or not is_small:  # one kernel pays on a GPU alone
            return [self.draws(*one) for one in zip(sources, layouts, strict=True)]
        starts = [self._take(*one) for one in zip(sources, sizes, strict=True)]
        words = torch.empty(sum(sizes) // 8, dtype=torch.int64, device=device)
        self._streams.fill_many(sources, words, sizes, self.number, starts)
        pieces = words.split([size // 8 for size in sizes])
        return [
            _read(piece, segments, dtypes)
            for piece, (segments, _, dtypes) in zip(pieces, plans, strict=True)
        ]

    def mask(self, source: Stream, values: Tensor, how: str) -> Tensor:
        """Returns `values` plus, minus or xor what `draw` would return ("add", "sub", "xor").

        For masks that are needed once: they are never in memory. `values` is overwritten.
        """
        values = values.contiguous()
        self.reserved_mask(source, values.nbytes, how)(values, 0)
        return values

    def reserved_mask(self, source: Stream, size: int, how: str) -> Callable[[Tensor, int], None]:
        """Reserves what `mask` takes for values of so many bytes, and returns what masks them.

        It takes contiguous values and the byte at which they begin among all. Each byte is to be
        masked once, in any order, whatever is drawn meanwhile.
        """
        start = self._take(source, -(-size // BLOCK_BYTES) * BLOCK_BYTES)

        def mask(values: Tensor, first: int) -> None:
            self._streams.mask(source, values, how, self.number, start + first)

        return mask

    def add_checksum(self, table: Tensor, source: Stream, values: Tensor, total: Tensor) -> None:
        """Adds to `total` the checksum of `values` under a table, with factors that are new."""
        values, start = values.contiguous(), self._take(source, BLOCK_BYTES * num_parts(values))
        self._streams.add_checksum(table, source, values, total, self.number, start)

    def _take(self, source: Stream, size: int) -> int:
        """Reserves the next bytes of a stream, whole blocks; returns where they start."""
        start = self._offsets.get(source, 0)
        self._offsets[source] = start + size
        return start


class Segment(NamedTuple):
    """The bytes of one draw among several, and how they are read."""

    start: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]
    offset: int  # in elements


def _read(
    words: Tensor, segments: Sequence[Segment], dtypes: Sequence[torch.dtype]
) -> list[Tensor]:
    """Returns the segments of a buffer; `dtypes` are those that are not its own."""
    views = {torch.int64: words} | {dtype: words.view(dtype) for dtype in dtypes}
    first = {dtype: view.storage_offset() for dtype, view in views.items()}
    return [
        views[s.dtype].as_strided(s.shape, s.stride, first[s.dtype] + s.offset) for s in segments
    ]


@lru_cache(maxsize=1024)
def _segments(
    layouts: tuple[Layout, ...],
) -> tuple[tuple[Segment, ...], int, tuple[torch.dtype, ...]]:
    """The segments of consecutive draws, the bytes of all, and their dtypes other than int64."""
    segments, place = [], 0
    for shape, dtype in layouts:
        end = place + prod(shape) * dtype.itemsize
        stride = torch.empty(shape, device="meta").stride()
        segments.append(Segment(place, tuple(shape), dtype, stride, place // dtype.itemsize))
        place = -(-end // BLOCK_BYTES) * BLOCK_BYTES
    return tuple(segments), place, tuple({s.dtype for s in segments} - {torch.int64})
