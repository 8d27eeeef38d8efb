"""Randomness that a test chooses: fixed keys, and words that a function changes.

Everything runs as in a session, down to the keys of the streams: only the secret of each key is
replaced by one that depends on its group alone, and the words that a kernel writes are changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from threading import local
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from tacit.crypto import Key
from tacit.kernels import StreamKey, stream
from tacit.kernels.stream import IN_PLACE
from tacit.protocols import randomness


class Draw(NamedTuple):
    """The words of one draw, as the kernels see them: by the key that was used in fact."""

    holders: frozenset[int]
    label: str  # of the use of the key
    number: int  # of the call
    start: int  # the first byte in the stream
    size: int  # in bytes

    @property
    def key(self) -> tuple[frozenset[int], str, int]:
        """The key that is used in fact, and the number of the call."""
        return self.holders, self.label, self.number

    @property
    def end(self) -> int:
        """The byte in the stream after the last one."""
        return self.start + self.size

    def hides(self, sender: int, receiver: int) -> bool:
        """Returns whether the key is that of masks on messages from this sender to this party."""
        _, _, hidden = self.label.rpartition("|")
        by, _, receivers = hidden.partition("->")
        return by == str(sender) and str(receiver) in receivers.split(",")


Change = Callable[[Draw, Tensor], Tensor]


class ChangedDraws:
    """Stands between the streams of a session and the kernels."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._uses: dict[bytes, tuple[frozenset[int], str]] = {}
        self._now = local()  # of each party: the segments of its last draws
        self._derive, self._segments = Key.derive, randomness._segments

    def extract(self, _: bytes, *, salt: bytes, session: bytes, group: tuple[int, ...]) -> Key:
        return Key(sha256(f"key of {group}".encode()).digest(), group)

    def derive(self, key: Key, label: str, size: int) -> bytes:
        made = self._derive(key, label, size)
        copy = bytes(bytearray(made))  # a party that ends first wipes its key, others still draw
        self._uses[copy] = frozenset(key.group), label
        return made

    def segments(self, layouts: Any) -> Any:
        self._now.segments = found = self._segments(layouts)
        return found

    def stream(self, key: bytes | StreamKey, out: Tensor, **where: Any) -> Tensor:
        stream(key, out, **where)
        name = self._uses[key.key if isinstance(key, StreamKey) else key]  # type: ignore[index]
        start = where["offset"]
        segments, size, _ = self._now.segments
        if len(segments) < 2 or out.nbytes != size:
            draw = Draw(*name, where["operation"], start, out.nbytes)
            return out.copy_(self._change(draw, out.clone()))
        for segment in segments:  # several draws in one buffer
            part = out.view(segment.dtype).as_strided(segment.shape, segment.stride, segment.offset)
            draw = Draw(*name, where["operation"], start + segment.start, part.nbytes)
            part.copy_(self._change(draw, part.clone()))
        return out

    def mask(self, key: bytes | StreamKey, values: Tensor, how: str, **where: Any) -> Tensor:
        self._now.segments = ((), 0, ())
        return IN_PLACE[how](values, self.stream(key, torch.empty_like(values), **where))


@contextmanager
def changed_draws(change: Change) -> Iterator[None]:
    """Within the block, `change(draw, words)` replaces the words of each draw.

    The keys are the same in every session.
    """
    changed = ChangedDraws(change)

    def derive(key: Key, label: str, size: int) -> bytes:
        return changed.derive(key, label, size)

    with ExitStack() as stack:
        stack.enter_context(patch.object(Key, "extract", changed.extract))
        stack.enter_context(patch.object(Key, "derive", derive))
        for name in ("_segments", "stream", "mask"):
            new = getattr(changed, name.removeprefix("_"))
            stack.enter_context(patch.object(randomness, name, new))
        yield


def other_words(draw: Draw, like: Tensor, seed: str = "other") -> Tensor:
    """Returns words that depend on the draw and the seed only."""
    key = sha256(f"{seed}|{sorted(draw.holders)}|{draw.label}".encode()).digest()[:16]
    return stream(key, torch.empty_like(like), operation=draw.number, offset=draw.start)


def seeded_words(seed: str, shape: Sequence[int], dtype: torch.dtype, number: int = 0) -> Tensor:
    """Returns uniform words of a public key."""
    key = sha256(seed.encode()).digest()[:16]
    return stream(key, torch.empty(tuple(shape), dtype=dtype), operation=number)
