"""A party of two, and raw connections in the place of its peer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tacit.transport import Limits, Mesh
from tacit.transport.shaping import Wire, network
from tacit.transport.wire.socket_channel import SocketChannel, SocketPoller
from tacit.transport.wire.tcp import TcpStream

SESSION = b"session of fuzz!"
LIMITS = Limits(deadline=5.0, patience=5.0)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection over the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    return near, far


@contextmanager
def victim() -> Iterator[tuple[Mesh, socket.socket, socket.socket]]:
    """The mesh of party 0; what comes to it from party 1, and what it sends there."""
    (out, taken), (come, given) = pair(), pair()
    streams = [TcpStream(out), TcpStream(come)]
    for stream in streams:
        stream.peer = 1
    channel = SocketChannel(
        *streams,
        party=0,
        peer=1,
        session=SESSION,
        limits=LIMITS,
        wire=Wire(network(None).between(0, 1)),
    )
    mesh = Mesh(0, [channel], SocketPoller([channel]), LIMITS)
    try:
        yield mesh, given, taken
    finally:
        mesh.abort("over")
        for sock in (given, taken):
            sock.close()


def listen_to(
    data: bytes, expect: Callable[[Mesh], None], against: bytes = b"", *, more: bool = False
) -> None:
    """Party 1 says `data`, and `against` the flow, and is gone; then party 0 expects something.

    With `more` it only goes away against the flow.
    """
    with victim() as (mesh, given, taken):
        speakers = [_speaker(given, data, not more), _speaker(taken, against, True)]
        try:
            expect(mesh)
        finally:
            for speaker in speakers:
                speaker.join()


def _speaker(sock: socket.socket, data: bytes, end: bool) -> threading.Thread:
    def speak() -> None:
        with contextlib.suppress(OSError):
            sock.settimeout(5.0)
            sock.sendall(data)
            if end:
                sock.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=speak)
    thread.start()
    return thread
