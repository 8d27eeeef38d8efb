"""A road between two parties that is long, or that closes: bytes go in and, maybe, come out."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from typing import Self

TICK = 0.02


class Proxy:
    """Forwards connections to `target`, each byte after `delay` seconds, until it is blocked.

    Blocked it is a link that drops all packets: the connections stay open and nothing passes.
    """

    def __init__(self, target: tuple[str, int], *, delay: float = 0.0) -> None:
        self._target, self._delay = target, delay
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(TICK)
        self.address: tuple[str, int] = self._server.getsockname()
        self.blocked = threading.Event()
        self._over = threading.Event()
        self._sockets: list[socket.socket] = [self._server]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                here, _ = self._server.accept()
                there = socket.create_connection(self._target)
                self._sockets += [here, there]
                self._start(self._pump, here, there)
                self._start(self._pump, there, here)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        """What comes is due later; an end is the last of it."""
        source.settimeout(TICK / 4)
        due: deque[tuple[float, bytes]] = deque()
        ended = False
        while not self._over.is_set() and (due or not ended):
            if not ended and len(due) < 1000:
                with contextlib.suppress(TimeoutError):
                    data = _receive(source)
                    ended = not data
                    due.append((time.monotonic() + self._delay, data))
            while due and due[0][0] <= time.monotonic() and not self.blocked.is_set():
                _deliver(sink, due.popleft()[1])
            if self.blocked.is_set() or ended:
                time.sleep(TICK / 4)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for sock in self._sockets:
            sock.close()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(1 << 16)
    except ConnectionError:
        return b""


def _deliver(sink: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sink.sendall(data) if data else sink.shutdown(socket.SHUT_WR)
