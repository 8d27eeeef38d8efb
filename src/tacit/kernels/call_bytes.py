"""The public part of a call's arguments as bytes: shapes, numbers and texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ring.reference.call_bytes import call_bytes as reference
from .backend import load_native

CallBytes = Callable[[Sequence[Any], Mapping[str, Any], "set[type]"], tuple[bytes, list[Any]]]


def load_call_bytes() -> CallBytes:
    """Returns the function call_bytes(args, kwargs, shaped), compiled if possible.

    It returns bytes, and the arguments that have to be described otherwise. The bytes are the same
    on every machine, and none begin with those of another call. Of objects whose class is in
    `shaped` they contain the attributes `shape` and `origin` only. See `csrc/call_bytes.cpp`.
    """
    native = load_native()
    return reference if native is None else native.call_bytes
