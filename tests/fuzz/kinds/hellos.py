"""What a stranger says first on a plain connection: to one that it dials, and to one that dials."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from tacit.transport import Hello
from tacit.transport.setup.handshake import Place, Verdict, greet, introduce
from tacit.transport.wire.frames import HEADER, MAGIC, NO_DIGEST, VERSION, Kind
from tacit.transport.wire.tcp import TcpStream

from ..attempts import Case
from ..links import SESSION, pair
from ..mutate import mutations

OURS = Hello(session=SESSION, rank=0, parties=2)
SECONDS = 8.0  # that a hello may take on a busy machine
SILENT_SECONDS = 0.1  # where nothing comes


def hello(last: int, **changes: object) -> bytes:
    """The hello of party 1, with its direction or verdict."""
    return framed(replace(OURS, rank=1, **changes).encode() + bytes([last, 0, 1]))


def framed(body: bytes, **changes: int | bytes) -> bytes:
    fields = {
        "magic": MAGIC,
        "version": VERSION,
        "kind": Kind.HELLO,
        "rank": 1,
        "table_bytes": 0,
        "session": SESSION,
        "operation": 0,
        "size": len(body),
        "sent_at": 0,
        "digest": NO_DIGEST,
    }
    return HEADER.pack(*(fields | changes).values()) + body


def crafted(random: Random) -> Iterator[tuple[str, bytes]]:
    good = hello(0)
    body = good[HEADER.size :]
    for field, value in (
        ("session", bytes(16)),
        ("parties", 3),
        ("parties", 65535),
    ):
        yield f"another {field}", hello(0, **{field: value})
    for at, name in ((16, "rank"), (18, "parties")):
        for value in (0, 2, 255, 65535):
            changed = body[:at] + value.to_bytes(2, "little") + body[at + 2 :]
            if changed != body:
                yield f"{name} {value}", framed(changed)
    for size in (0, 1, len(body) - 1, len(body) + 1, 1 << 31, (1 << 64) - 1):
        yield f"a hello of {size}", framed(body, size=size)
    for version in (0, 1, VERSION - 1, VERSION + 1, 255):
        for rank in (0, 1, 65535):
            yield f"version {version} of {rank}", framed(body, version=version, rank=rank)
    for kind in (0, *set(Kind) - {Kind.HELLO}, 255):
        yield f"kind {kind}", framed(body, kind=kind)
    for cut in (0, 1, 8, HEADER.size - 1, HEADER.size, len(good) - 1):
        yield f"the first {cut} bytes", good[:cut]
    yield "a web browser", b"GET / HTTP/1.1\r\nHost: alice.example\r\n\r\n" + b" " * 200
    yield "zeros", bytes(4096)
    yield "noise", random.randbytes(4096)


def judge(theirs: Hello, *_: object) -> Verdict:
    return Verdict.WELCOME if theirs.rank else Verdict.RANK


def hear_one_that_dials(stream: TcpStream, seconds: float) -> None:
    greet(stream, OURS, judge, proved=(), until=time.monotonic() + seconds)


def hear_one_that_was_dialled(stream: TcpStream, seconds: float) -> None:
    introduce(stream, OURS, 1, Place(True), until=time.monotonic() + seconds)


SIDES = (hear_one_that_dials, hear_one_that_was_dialled)


def meet(data: bytes, hear: Callable[[TcpStream, float], None], *, silent: bool = False) -> None:
    """A stranger says so much; then it is gone, or silent."""
    near, far = pair()
    stream = TcpStream(near)

    def speak() -> None:
        far.sendall(data)
        if not silent:
            far.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=speak)
    thread.start()
    try:
        hear(stream, SILENT_SECONDS if silent else SECONDS)
    finally:
        thread.join()
        stream.close()
        far.close()


def cases(random: Random, count: int, _: Path) -> Iterator[Case]:
    yield Case("valid", lambda: [meet(hello(0), hear) for hear in SIDES])
    for hear in SIDES:
        where = f", {hear.__name__.replace('_', ' ')}"
        for what, data in crafted(random):
            yield Case(what + where, lambda d=data, h=hear: meet(d, h), hostile=True)
        for verdict in (1, 2, 3, 4, 5, 255):
            if hear is hear_one_that_was_dialled:
                said = hello(verdict)
                yield Case(f"verdict {verdict}", lambda d=said, h=hear: meet(d, h), hostile=True)
        for cut in (0, 20, 60):
            yield Case(
                f"{cut} bytes, then nothing{where}",
                lambda c=cut, h=hear: meet(hello(0)[:c], h, silent=True),
                hostile=True,
            )
        for what, data in mutations(hello(0), seed=random.randrange(1 << 30), count=count // 2):
            yield Case(what + where, lambda d=data, h=hear: meet(d, h))
