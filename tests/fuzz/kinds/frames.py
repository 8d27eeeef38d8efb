"""What a peer sends where a message of tensors, or of bytes, is expected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import torch

from tacit.transport import Mesh, Spec
from tacit.transport.wire.control import beat
from tacit.transport.wire.frames import (
    DTYPES,
    HEADER,
    MAGIC,
    NO_DIGEST,
    VERSION,
    Kind,
    Layout,
    layout,
    pack,
)

from ..attempts import Case, plant
from ..links import SESSION, listen_to
from ..mutate import mutations

OPERATION = 0
WANTED = layout((Spec((3, 5), torch.int64), Spec((7,), torch.uint8)))
VALUES = bytes(range(100, 100 + WANTED.size % 256)) * (WANTED.size // 100 + 1)
BODY = VALUES[: WANTED.size]
TEXT = b"short bytes of any length"
VECTOR = layout((Spec((len(TEXT),), torch.uint8),))
TENSORS = pack(Kind.TENSORS, SESSION, OPERATION, WANTED, WANTED.size) + BODY
BYTES = pack(Kind.BYTES, SESSION, OPERATION, VECTOR, len(TEXT)) + TEXT
SIZES = (0, 1, 1 << 20, 1 << 31, 1 << 32, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def expect_tensors(mesh: Mesh) -> None:
    mesh.exchange({}, {1: WANTED.specs})


def expect_bytes(mesh: Mesh) -> None:
    mesh.exchange_bytes({}, [1])


def _head(kind: int = Kind.BYTES, **changes: int | bytes) -> bytes:
    fields = {
        "magic": MAGIC,
        "version": VERSION,
        "kind": kind,
        "tensors": 1,
        "table_bytes": len(VECTOR.table),
        "session": SESSION,
        "operation": OPERATION,
        "size": len(TEXT),
        "sent_at": 0,
        "digest": NO_DIGEST,
    }
    return HEADER.pack(*(fields | changes).values())


def _table(*entries: tuple[int, tuple[int, ...]]) -> bytes:
    return b"".join(
        bytes([code, len(dims)]) + b"".join(d.to_bytes(8, "little") for d in dims)
        for code, dims in entries
    )


def _crafted(random: Random) -> Iterator[tuple[str, bytes]]:
    """Frames that are consistent in all but one thing."""
    byte = DTYPES.index(torch.uint8)
    for size in SIZES:
        table = _table((byte, (size,)))
        yield f"a vector of {size}", _head(size=len(TEXT), table_bytes=len(table)) + table + TEXT
        yield f"a message of {size}", _head(size=size) + VECTOR.table + TEXT
        if size > 1:
            both = _head(size=size, table_bytes=len(table)) + table + TEXT
            yield f"a vector and a message of {size}", both
        table = _table((byte, (0, size, size, size)))
        yield f"none of {size}", _head(size=0, table_bytes=len(table)) + table
        yield f"operation {size}", _head(operation=size or 1) + VECTOR.table + TEXT
    for kind in (0, *Kind, max(Kind) + 1, 255):
        if kind != Kind.BYTES:
            yield f"kind {kind}", _head(kind=kind) + VECTOR.table + TEXT
    for dims in (0, 2, 16, 254, 255):
        table = _table((byte, (1,) * dims))
        yield f"{dims} dims", _head(size=1, table_bytes=len(table)) + table + b"x"
    for count in (0, 2, 65535):
        yield f"{count} tensors", _head(tensors=count) + VECTOR.table + TEXT
    table = _table(*[(code % len(DTYPES), (random.randrange(9),)) for code in range(6000)])
    yield "6000 tensors", _head(tensors=6000, size=0, table_bytes=len(table)) + table
    yield "a table over the cap", _head(table_bytes=1 << 31) + bytes(1 << 18)
    yield "a table of zeros", _head(tensors=32768, table_bytes=1 << 16) + bytes(1 << 16)
    yield "codes unknown", _head(table_bytes=10) + b"\xff\x01" + bytes(8) + TEXT
    yield "a version to come", _head(version=VERSION + 1) + VECTOR.table + TEXT
    yield "another session", _head(session=bytes(16)) + VECTOR.table + TEXT
    yield "a heartbeat", beat(SESSION, False)
    yield "1000 heartbeats", beat(SESSION, True) * 1000
    yield "a hello of the next version", b"TCIT\x03\x01" + random.randbytes(400)
    yield "a web browser", b"GET / HTTP/1.1\r\nHost: alice.example\r\n\r\n" + b" " * 100
    yield "zeros", bytes(1 << 16)


def _other(wanted: Layout) -> Iterator[tuple[str, bytes]]:
    """Good messages that were not asked for."""
    for shape, dtype in (((3, 5), torch.int32), ((5, 3), torch.int64), ((), torch.bool)):
        how = layout((Spec(shape, dtype), *wanted.specs[1:]))
        data = pack(Kind.TENSORS, SESSION, OPERATION, how, how.size) + bytes(how.size)
        yield f"{dtype}{shape}", data
    for cut in range(1, len(TENSORS), 37):
        yield f"the first {cut} bytes", TENSORS[:cut]


def cases(random: Random, count: int, _: Path) -> Iterator[Case]:
    plant("the values of a tensor", BODY[:16])
    yield Case("valid", lambda: listen_to(TENSORS, expect_tensors))
    for what, data in [*_crafted(random), *_other(WANTED)]:
        for expect in (expect_bytes, expect_tensors):
            act = lambda data=data, expect=expect: listen_to(data, expect)  # noqa: E731
            yield Case(f"{what}, {expect.__name__}", act, hostile=True, names="party 1")
    for data, expect in ((TENSORS, expect_tensors), (BYTES, expect_bytes)):
        for what, changed in mutations(data, seed=random.randrange(1 << 30), count=count // 2):
            act = lambda data=changed, expect=expect: listen_to(data, expect)  # noqa: E731
            yield Case(f"{what}, {expect.__name__}", act, names="party 1")
