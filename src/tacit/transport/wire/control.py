"""How a heartbeat, a goodbye or an abort looks in bytes."""

from __future__ import annotations

import struct

from ...errors import FrameRejected
from ..channel import Abort, Goodbye, LastWord
from .frames import HEADER, Kind, layout, pack, parse_header

_ORIGIN = struct.Struct("<H")
MAX_WORD_BYTES = 1 << 10


def beat(session: bytes, stuck: bool) -> bytes:
    """A heartbeat; `stuck` says that this party waits too, and gets nothing."""
    return pack(Kind.BEAT, session, int(stuck), layout(()), 0)


def encode(word: LastWord, session: bytes) -> bytes:
    if isinstance(word, Goodbye):
        return pack(Kind.BYE, session, 0, layout(()), 0)
    body = _ORIGIN.pack(word.origin) + word.reason.encode()
    return pack(Kind.ABORT, session, word.operation, layout(()), len(body)) + body


def decode(data: bytes, session: bytes) -> LastWord | None:
    """The last word in `data`, or None while it is incomplete."""
    if len(data) < HEADER.size:
        return None
    header = parse_header(data)
    if header.session != session or header.table_bytes or header.size > MAX_WORD_BYTES:
        raise FrameRejected("a last word that has no place here")
    body = data[HEADER.size :]
    if len(body) < header.size:
        return None
    if header.kind == Kind.BYE:
        return Goodbye()
    if header.kind != Kind.ABORT or header.size < _ORIGIN.size:
        raise FrameRejected(f"a message of kind {header.kind} is not a last word")
    (origin,) = _ORIGIN.unpack_from(body)
    reason = body[_ORIGIN.size : header.size].decode(errors="replace")
    return Abort(origin, header.operation, reason)
