"""A party of two, and raw connections in the place of its peer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

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


class Victim(NamedTuple):
    """The mesh of party 0, and the far ends of its connections with party 1.

    given: what comes to party 0; taken: what it sends. Their first is the main connection, the
    stripes follow.
    """

    mesh: Mesh
    given: list[socket.socket]
    taken: list[socket.socket]


@contextmanager
def victim(num_stripes: int = 0, limits: Limits = LIMITS) -> Iterator[Victim]:
    """Yields a party whose peer is played by the test."""
    near, far = zip(*(pair() for _ in range(2 + 2 * num_stripes)), strict=True)
    streams = [TcpStream(sock) for sock in near]
    for stream in streams:
        stream.peer = 1
    half = 1 + num_stripes
    taken, given = [*far[:half]], [*far[half:]]
    (out, *out_stripes), (into, *in_stripes) = streams[:half], streams[half:]
    channel = SocketChannel(
        out,
        into,
        party=0,
        peer=1,
        session=SESSION,
        limits=limits,
        wire=Wire(network(None).between(0, 1)),
        stripes=(out_stripes, in_stripes),
    )
    mesh = Mesh(0, [channel], SocketPoller([channel]), limits)
    try:
        yield Victim(mesh, given, taken)
    finally:
        mesh.abort("over")
        for sock in (*given, *taken):
            sock.close()


def listen_to(
    data: bytes, expect: Callable[[Mesh], None], against: bytes = b"", *, more: bool = False
) -> None:
    """Party 1 says `data`, and `against` the flow, and is gone; then party 0 expects something.

    With `more` it only goes away against the flow.
    """
    with victim() as (mesh, [given], [taken]):
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
