"""What a host sends to its enclave: messages, and the configuration in the first of them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from tacit.enclave.attestation import Manifest
from tacit.enclave.configuration import EnclaveConfig
from tacit.enclave.edl import Kind, Link, Side
from tacit.errors import PeerClosed

from ..attempts import Case
from ..mutate import mutations

CONFIG = EnclaveConfig(settings={"budget": "90"}, program="/job.py", function="run")
MANIFEST = Manifest({"file tacit/config.py": "00" * 32})
START = CONFIG.encode(MANIFEST)


def _message(kind: int, number: int, body: bytes, size: int | None = None) -> bytes:
    return struct.pack("<BII", kind, number, len(body) if size is None else size) + body


VALID = b"".join(
    [
        _message(Kind.START, 0, START),
        _message(Kind.OPEN, 2, b"owners"),
        _message(Kind.BYTES, 2, bytes(100)),
        _message(Kind.CREDIT, 2, bytes(4)),
        _message(Kind.QUOTE, 1, bytes(32)),
        _message(Kind.STATUS, 2, b""),
        _message(Kind.END, 2, b""),
        _message(Kind.STOP, 0, b""),
    ]
)


def receive(data: bytes) -> None:
    """Takes all messages as the enclave does; the host's end is no error."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        with suppress(BlockingIOError):
            near.sendall(data)
        near.shutdown(socket.SHUT_WR)
        link = Link(far, Side.ENCLAVE)
        with suppress(PeerClosed):
            while True:
                link.receive()


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    yield Case("valid", lambda: (receive(VALID), EnclaveConfig.decode(START)))
    for kind in range(256):
        if kind not in (1, 3, 4, 5, 6, 7, 8, 9, 10):
            data = _message(kind, 0, b"")
            yield Case(f"kind {kind}", lambda d=data: receive(d), hostile=True, names="the ")
    for kind in Kind:
        data = _message(kind, 0, b"", size=0xFFFFFFFF)
        yield Case(f"4 GB of {kind.name}", lambda d=data: receive(d), hostile=True, names="the ")
    for what, data in mutations(VALID, seed=random.randrange(1 << 30), count=count):
        yield Case(what, lambda d=data: receive(d), names="the host")
    for what, data in mutations(START, seed=random.randrange(1 << 30), count=count):
        yield Case(f"{what} of START", lambda d=data: EnclaveConfig.decode(d), names="enclave")
    for bomb in (b"[" * 900_000, b"null", b'{"manifest": 1}', b'{"manifest": {"a": 1}}', b""):
        yield Case(
            "odd START", lambda b=bomb: EnclaveConfig.decode(b), hostile=True, names="enclave"
        )
