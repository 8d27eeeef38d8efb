"""Where the public operands of the parties first differ.

A party that learns of a difference from another one may not have come to that operation. Here every
party adds the digests of its public record (transport/public_record.py) before and after each
operation: the second one to come to a difference is at its place.
"""

from __future__ import annotations

from threading import Lock

from ..places import line_label, module_label


class PublicCalls:
    """The digests around each operation. place: module and line of the first difference, if any."""

    def __init__(self, members: int) -> None:
        self._members, self._lock = members, Lock()
        self._first: dict[int, tuple[bytes, bytes]] = {}
        self._came: dict[int, int] = {}
        self.place: tuple[str, str] | None = None

    def add(self, index: int, before: bytes, after: bytes) -> None:
        """Adds the digests of the member that runs in this thread."""
        with self._lock:
            known = self._first.setdefault(index, (before, after))
            if self.place is None and known[0] == before and known[1] != after:
                self.place = module_label() or "", f"at {line_label()}"
            self._came[index] = self._came.get(index, 0) + 1
            if self._came[index] == self._members:
                del self._came[index], self._first[index]
