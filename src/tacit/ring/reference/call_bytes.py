"""The public part of a call's arguments as bytes: see `csrc/call_bytes.h` for its definition."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MOST_DEPTH = 100  # of lists in lists


Describe = Callable[[Any], tuple[Any, ...]]


def call_bytes(
    args: Sequence[Any], kwargs: Mapping[str, Any], shaped: set[type], described: Describe
) -> bytes:
    """Returns the arguments as bytes; `described` gives a tuple for those of other classes."""
    return b"".join(_flat(x, shaped, described, 0) for x in (args, kwargs))


def _flat(x: Any, shaped: set[type], described: Describe, depth: int) -> bytes:
    if isinstance(x, list | tuple | dict) and depth == MOST_DEPTH:
        raise RecursionError("the lists of a call are nested too deeply")
    if x is None:
        return b"N"
    if isinstance(x, bool):
        return b"T" if x else b"F"
    if isinstance(x, int):
        if -(1 << 63) <= x < 1 << 63:
            return struct.pack("<cq", b"i", x)
        return _begin(b"I", digits := b"%d" % x) + digits
    if isinstance(x, list | tuple):
        return _begin(b"[", x) + b"".join(_flat(one, shaped, described, depth + 1) for one in x)
    if isinstance(x, str):
        return _begin(b"s", text := x.encode()) + text
    if isinstance(x, bytes):
        return _begin(b"b", x) + x
    if isinstance(x, dict):
        parts = (part for item in x.items() for part in item)
        return _begin(b"{", x) + b"".join(
            _flat(part, shaped, described, depth + 1) for part in parts
        )
    if type(x) in shaped:
        return _begin(b"S", x.shape) + struct.pack(f"<{len(x.shape) + 1}q", *x.shape, x.origin)
    if isinstance(x, float):
        return struct.pack("<cd", b"f", x)
    return b"?" + _flat(tuple(described(x)), shaped, described, depth)


def _begin(kind: bytes, x: Sequence[Any] | Mapping[Any, Any]) -> bytes:
    return struct.pack("<cI", kind, len(x))
