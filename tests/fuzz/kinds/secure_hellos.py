"""What a party says first inside TLS, with its own key: it is who it is, and still a liar."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from tacit.crypto import Credentials as Papers
from tacit.crypto import create_credentials
from tacit.transport import Identity
from tacit.transport.setup.admission import Admission
from tacit.transport.setup.handshake import Place, greet, introduce
from tacit.transport.wire.tls import Credentials

from ..attempts import Case, plant
from ..links import pair
from ..mutate import mutations
from .hellos import OURS, SECONDS, crafted, hello, judge


@cache
def papers(rank: int) -> Papers:
    return create_credentials(f"party{rank}")


def identity(rank: int) -> Identity:
    own = papers(rank)
    return Identity(own.certificate, own.private_key, tuple(papers(r).certificate for r in (0, 1)))


@cache
def admission() -> Admission:
    return Admission(Credentials(identity(0)))


@cache
def rogue(server: bool, folder: Path) -> ssl.SSLContext:
    """The context of party 1, which holds its key and trusts anybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    path = folder / "rogue.pem"
    path.write_bytes(papers(1).certificate + papers(1).private_key)
    context.load_cert_chain(path)
    return context


def speak(sock: socket.socket, context: ssl.SSLContext, server: bool, data: bytes) -> None:
    with contextlib.suppress(OSError), sock:
        sock.settimeout(SECONDS)
        tls = context.wrap_socket(sock, server_side=server)
        tls.sendall(data)
        tls.shutdown(socket.SHUT_WR)


def meet(data: bytes, context: ssl.SSLContext, *, dialled: bool) -> None:
    """Party 0 shakes hands with party 1, which says so much and is gone."""
    near, far = pair()
    thread = threading.Thread(target=speak, args=(far, context, dialled, data))
    thread.start()
    try:
        until = time.monotonic() + SECONDS
        stream = admission().enter(near, server=not dialled)
        with admission().handshake(stream, seconds=SECONDS):
            if dialled:
                admission().require(stream, 1)
                introduce(stream, OURS, 1, Place(True), until=until)
            else:
                greet(stream, OURS, judge, proved=admission().ranks_of(stream), until=until)
        stream.close()
    finally:
        near.close()
        thread.join()


def say_in_clear(data: bytes, *, dialled: bool) -> None:
    """A stranger without any TLS."""
    near, far = pair()
    far.sendall(data)
    far.shutdown(socket.SHUT_WR)
    try:
        stream = admission().enter(near, server=not dialled)
        with admission().handshake(stream, seconds=SECONDS):
            pass
    finally:
        near.close()
        far.close()


def client_hello() -> bytes:
    """The first bytes of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    return out.read()


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    plant("the private key", papers(0).private_key.split(b"\n")[1])
    contexts = {dialled: rogue(dialled, folder) for dialled in (False, True)}

    def case(what: str, data: bytes, dialled: bool, hostile: bool = False) -> Case:
        act = lambda: meet(data, contexts[dialled], dialled=dialled)  # noqa: E731
        return Case(f"{what}, {'dialled' if dialled else 'dials'}", act, hostile=hostile)

    yield Case("valid", lambda: [meet(hello(0), contexts[d], dialled=d) for d in contexts])
    for dialled in contexts:
        for what, data in crafted(random):
            yield case(what, data, dialled, hostile=True)
        for what, data in mutations(hello(0), seed=random.randrange(1 << 30), count=count // 3):
            yield case(what, data, dialled)
        for what, data in mutations(client_hello(), seed=random.randrange(1 << 30), count=count):
            act = lambda d=data, dialled=dialled: say_in_clear(d, dialled=dialled)  # noqa: E731
            yield Case(f"{what} in clear", act, hostile=True)
