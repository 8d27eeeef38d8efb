"""How a heartbeat, a goodbye or an abort looks in bytes."""

from __future__ import annotations

import struct

from ...errors import FrameRejected
from ..channel import Abort, Goodbye, LastWord
from ..public_record import Excerpt
from .frames import HEADER, Kind, layout, pack, parse_header

_ORIGIN = struct.Struct("<HB")  # with the length of the reason
MAX_WORD_BYTES = 1 << 14
MAX_REASON_BYTES = 255


def beat(session: bytes, stuck: bool) -> bytes:
    """A heartbeat; `stuck` says that this party waits too, and gets nothing."""
    return pack(Kind.BEAT, session, int(stuck), layout(()), 0)


def encode(word: LastWord, session: bytes) -> bytes:
    record = b"" if word.record is None else word.record.encode()
    if isinstance(word, Goodbye):
        head = pack(Kind.BYE, session, word.sent, layout(()), len(record), digest=word.digest)
        return head + record
    reason = word.reason.encode()[:MAX_REASON_BYTES]
    body = _ORIGIN.pack(word.origin, len(reason)) + reason + record
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
    body = body[: header.size]
    if header.kind == Kind.BYE:
        return Goodbye(header.digest, _record(body), header.operation)
    if header.kind != Kind.ABORT or header.size < _ORIGIN.size:
        raise FrameRejected(f"a message of kind {header.kind} is not a last word")
    origin, length = _ORIGIN.unpack_from(body)
    reason, rest = body[_ORIGIN.size :][:length], body[_ORIGIN.size + length :]
    return Abort(origin, header.operation, reason.decode(errors="replace"), _record(rest))


def _record(data: bytes) -> Excerpt | None:
    return Excerpt.decode(data) if data else None
