"""What this party's program did with secrets, as far as it is public: a digest, and a record.

A layer above adds every operation on a secret with everything public about it: its name, shapes,
scalars, indices, and the contents of public tensors. All parties run the same program on the same
public values, so their digests are equal at the same point of it. Every message carries the digest
of its sender; see NOTE [public mismatch] in `mismatch.py`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple, Protocol

from ..errors import FrameRejected
from ..errors.call_sites import Place

DIGEST_BYTES = 16
KEPT = 1 << 13  # entries; one takes about 250 bytes
TOLD = 1 << 9  # entries in a last word

_SHORT_BYTES = 4  # of a digest, in a last word
_MAX_NAME_BYTES = 1 << 7
_HEAD = struct.Struct("<QH?")


class Entry(NamedTuple):
    """One operation: its name, what is public about it, and the line of the user's program."""

    name: str
    data: bytes
    place: Place | None


class CallLog(Protocol):
    """Keeps the last operations; see `csrc/call_log.cpp`."""

    def entries(self, first: int, end: int) -> list[tuple[str, bytes]]:
        """Returns names, and what is public, of the operations [first, end), which are kept."""

    def place(self, index: int) -> Place | None:
        """Returns the line of the user's program of an operation that is kept."""


class PublicRecord:
    """The digest, the number of operations so far, and the last of them.

    A party that records nothing, such as one without a protocol, has an empty record. A subclass
    adds operations to the log, and keeps `count` and `digest`, which depends on all of them.
    """

    def __init__(self, log: CallLog | None = None) -> None:
        self.count, self.digest = 0, bytes(DIGEST_BYTES)
        self._kept = log

    @property
    def first(self) -> int:
        """The index of the oldest entry."""
        return max(self.count - KEPT, 0)

    def entry(self, index: int) -> Entry | None:
        """Returns an entry, if it is still kept."""
        if self._kept is None or not self.first <= index < self.count:
            return None
        [(name, data)] = self._kept.entries(index, index + 1)
        return Entry(name, data, self._kept.place(index))

    @property
    def last_name(self) -> str:
        """The name of the last operation; empty before the first."""
        if self._kept is None or not self.count:
            return ""
        [(name, _)] = self._kept.entries(self.count - 1, self.count)
        return name

    def excerpt(
        self, end: int | None = None, *, most: int = TOLD, stopped: bool = False
    ) -> Excerpt:
        """Returns the last entries, or those before the index `end`, for other parties."""
        end = self.count if end is None else min(max(end, self.first), self.count)
        start = max(end - most, self.first)
        kept = [] if self._kept is None else self._kept.entries(start, end)
        told = (Told(name, _short_digest(data)) for name, data in kept)
        return Excerpt(start, {start + i: one for i, one in enumerate(told)}, stopped)


def _short_digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_SHORT_BYTES).digest()


class Told(NamedTuple):
    """What other parties are told of an entry: nothing about the program's files."""

    name: str
    digest: bytes


class Excerpt(NamedTuple):
    """Consecutive entries of a party's record, by index, from `first` on.

    stopped: the party does nothing more, or waited for another's message when it noticed a
    difference. Without it, the record may be short because the party is slower.
    """

    first: int
    entries: Mapping[int, Told]
    stopped: bool = False

    @property
    def end(self) -> int:
        """The index after the last entry."""
        return self.first + len(self.entries)

    def encode(self) -> bytes:
        """Returns the bytes for a last word."""
        names = "\n".join(told.name for told in self.entries.values())
        digests = b"".join(told.digest for told in self.entries.values())
        head = _HEAD.pack(self.first, len(self.entries), self.stopped)
        return head + digests + zlib.compress(names.encode())

    @classmethod
    def decode(cls, data: bytes, most: int = TOLD) -> Excerpt:
        """Returns the excerpt of at most so many entries. Raises FrameRejected if there is none."""
        try:
            first, count, stopped = _HEAD.unpack_from(data)
            start = _HEAD.size + count * _SHORT_BYTES
            text = zlib.decompressobj().decompress(data[start:], most * _MAX_NAME_BYTES)
            names = text.decode(errors="replace").split("\n") if count else []
        except (struct.error, zlib.error) as error:
            raise FrameRejected("a record that cannot be read") from error
        digests = data[_HEAD.size : start]
        if len(names) != count or count > most:
            raise FrameRejected(f"a record of {len(names)} names for {count} entries")
        pieces = (digests[i * _SHORT_BYTES : (i + 1) * _SHORT_BYTES] for i in range(count))
        told = map(Told, names, pieces)
        return cls(first, {first + i: one for i, one in enumerate(told)}, stopped)
