"""A log of calls, their digest, and the lines that made them: see `csrc/call_log.cpp`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from types import FrameType
from typing import Any

from ...errors.call_sites import Place
from .call_bytes import Describe, call_bytes

DIGEST_BYTES = 16
LONG_BYTES = 1 << 9  # of a call's arguments: more is replaced by its hash


class CallLog:
    """The digest of all calls, and the last of them.

    shaped, described: how arguments become bytes; see `csrc/call_bytes.h`. files: whether a file is
    the user's, by name. is_users: the same of a frame whose file is not there; it may add it.
    kept: how many calls.
    """

    def __init__(
        self,
        shaped: set[type],
        described: Describe,
        files: dict[str, bool],
        is_users: Callable[[FrameType], bool],
        kept: int,
    ) -> None:
        self._shaped, self._described = shaped, described
        self._files, self._is_users = files, is_users
        self._calls: deque[tuple[str, bytes, Place | None]] = deque(maxlen=kept)
        self._count, self._digest = 0, bytes(DIGEST_BYTES)

    def absorb(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Adds a call, and returns the digest of all calls so far."""
        data = call_bytes(args, kwargs, self._shaped, self._described)
        if len(data) > LONG_BYTES:
            data = b"#" + blake2b(data).digest()
        place = self._running()
        call = self._digest + name.encode() + b"\0" + data
        self._digest = blake2b(call, digest_size=DIGEST_BYTES).digest()
        self._calls.append((name, data, place))
        self._count += 1
        return self._digest

    def entries(self, first: int, end: int) -> list[tuple[str, bytes]]:
        """Returns the names and arguments of calls [first, end); IndexError if they are gone."""
        kept = islice(self._calls, self._at(first), self._at(end - 1) + 1) if first < end else ()
        return [(name, data) for name, data, _ in kept]

    def place(self, index: int) -> Place | None:
        """Returns the innermost line of the user's program that made a call."""
        return self._calls[self._at(index)][2]

    def _at(self, index: int) -> int:
        at = index - (self._count - len(self._calls))
        if not 0 <= at < len(self._calls):
            raise IndexError("a call that is not kept")
        return at

    def _running(self) -> Place | None:
        frame: FrameType | None = sys._getframe(2)  # of the caller of `absorb`
        while frame is not None:
            users = self._files.get(frame.f_code.co_filename)
            if users is None:
                users = self._is_users(frame)
            if users:
                return frame.f_code, frame.f_lineno
            frame = frame.f_back
        return None
