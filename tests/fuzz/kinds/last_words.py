"""What a peer says against the flow: heartbeats and last words, and what is neither."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tacit.transport.channel import Abort, Goodbye
from tacit.transport.wire.control import beat, encode
from tacit.transport.wire.frames import HEADER, MAGIC, NO_DIGEST, VERSION, Kind, layout, pack

from ..attempts import Case
from ..links import SESSION, listen_to
from ..mutate import mutations
from .frames import TENSORS, WANTED, expect_tensors

BEATS = beat(SESSION, False) + beat(SESSION, True)
ABORT = encode(Abort(1, 7, "KeyError"), SESSION)
BYE = encode(Goodbye(), SESSION)


def _abort(origin: int, reason: bytes, operation: int = 7) -> bytes:
    body = struct.pack("<HB", origin, min(len(reason), 255)) + reason
    return pack(Kind.ABORT, SESSION, operation, layout(()), len(body)) + body


def _head(kind: int, size: int, table: int = 0) -> bytes:
    return HEADER.pack(MAGIC, VERSION, kind, 0, table, SESSION, 0, size, 0, NO_DIGEST)


def _records(random: Random) -> Iterator[bytes]:
    """Yields records of what a peer did, most of them malformed."""
    names = zlib.compress(b"aten::add\naten::mul")
    yield struct.pack("<QH?", 0, 2, False) + bytes(8) + names
    yield struct.pack("<QH?", (1 << 64) - 1, 2, False) + bytes(8) + names
    yield struct.pack("<QH?", 0, 65535, False) + bytes(8) + names
    yield struct.pack("<QH?", 0, 1, False) + bytes(4) + zlib.compress(b"\x1b[2J\xff")
    yield struct.pack("<QH?", 0, 1, False) + bytes(4) + zlib.compress(bytes(1 << 22))
    yield struct.pack("<QH?", 0, 1, False) + bytes(4)
    yield random.randbytes(300)


def _crafted(random: Random) -> Iterator[tuple[str, bytes]]:
    for origin in (0, 1, 2, 255, 65535):
        yield f"party {origin} is to blame", _abort(origin, b"PeerTimeout")
        yield f"party {origin} forbids", _abort(origin, b"RevealForbidden")
    reasons = (
        b"",
        b"\x1b[2J\x07",
        b"\xff\xfe\x80",
        b"a\nb\rc",
        "\u202e\u0000".encode(),
        b"x" * 900,
    )
    for reason in (*reasons, random.randbytes(500)):
        yield f"the reason {reason[:8]!r}", _abort(1, reason)
    for number, record in enumerate(_records(random)):
        told = struct.pack("<HB", 1, 14) + b"PublicMismatch" + record
        yield f"a mismatch with record {number}", _head(Kind.ABORT, len(told)) + told
        yield f"a goodbye with record {number}", _head(Kind.BYE, len(record)) + record
    for size in (1, 1 << 10, 1 << 20, 1 << 62, (1 << 64) - 1):
        yield (
            f"an abort of {size}",
            _head(Kind.ABORT, size) + bytes(40_000),
        )
        yield (
            f"a goodbye of {size}",
            _head(Kind.BYE, size) + bytes(40_000),
        )
    for kind in (0, Kind.HELLO, Kind.TENSORS, Kind.BYTES, 7, 255):
        yield (
            f"kind {kind}",
            pack(Kind.BYE, SESSION, 0, layout(()), 0).replace(
                bytes([VERSION, Kind.BYE]), bytes([VERSION, kind])
            ),
        )
    yield "an operation beyond all", _abort(1, b"KeyError", (1 << 64) - 1)
    yield "a table", _head(Kind.BYE, 0, table=9) + bytes(9)
    yield "a message of tensors", TENSORS
    yield "another session", beat(bytes(16), False)
    yield "a heartbeat of a kind to come", pack(Kind.BEAT, SESSION, 2, layout(()), 0)
    yield "half a heartbeat", beat(SESSION, False)[:30]
    yield "many heartbeats, then rubbish", BEATS * 5000 + b"rubbish" * 20
    yield "many heartbeats, then no more", BEATS * 5000
    yield "a goodbye, then more", BYE + BEATS + TENSORS
    yield "zeros", bytes(4096)


def cases(random: Random, count: int, _: Path) -> Iterator[Case]:
    yield Case("valid", lambda: listen_to(TENSORS, expect_tensors, BEATS))
    for what, data in _crafted(random):
        act = lambda data=data: listen_to(b"", expect_tensors, data, more=True)  # noqa: E731
        yield Case(what, act, hostile=True, names="party 1")
        part = TENSORS[: len(TENSORS) - WANTED.size // 2]
        act = lambda data=data, part=part: listen_to(part, expect_tensors, data, more=True)  # noqa: E731
        yield Case(f"{what}, amid a message", act, hostile=True, names="party 1")
    for data in (BEATS, ABORT):
        for what, changed in mutations(data, seed=random.randrange(1 << 30), count=count // 2):
            act = lambda data=changed: listen_to(b"", expect_tensors, data, more=True)  # noqa: E731
            yield Case(what, act, hostile=True, names="party 1")
