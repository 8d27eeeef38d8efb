"""The enclave's side of the socket to its host: relayed connections look like ordinary sockets.

TLS, handshakes and heartbeats of `transport` run on them unchanged: `listen` and `dial` give what
`transport.connect` takes in the place of a port and of TCP.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Callable

from ...errors import ConnectError, TransportError
from ..edl import END_SECONDS, STATUS_FIELDS, Frame, Kind, Link, Side, pack_status
from ..streams import Stream, Streams

Quoter = Callable[[bytes], bytes]  # from a nonce to a certificate and a quote, encoded


def _exit() -> None:
    os._exit(1)


class HostLink:
    """Answers the host, and makes sockets of the streams that it relays.

    `end` is called when the host says so, breaks the rules or is gone: the process ends at once.
    """

    def __init__(self, link: Link, quoter: Quoter, end: Callable[[], None] = _exit) -> None:
        self._link, self._quoter, self._end = link, quoter, end
        self._streams = Streams(link, Side.ENCLAVE)
        self._counters: Callable[[], dict[str, int]] = dict
        self._listeners: dict[str, RelayedListener] = {}
        threading.Thread(target=self._read, name="tacit-host-link", daemon=True).start()

    def listen(self, name: str) -> RelayedListener:
        """Returns where connections arrive that others make to the host's port of this name.

        Until it is called they are refused. Each mesh needs a port of its own.
        """
        self._listeners[name] = made = RelayedListener()
        return made

    def dial(self, address: tuple[str, int], seconds: float) -> socket.socket:
        """Returns a connection that the host is to make; if it cannot, the connection ends."""
        near, far = socket.socketpair()
        try:
            self._streams.open(far, f"{address[0]}:{address[1]}")
        except TransportError as error:
            near.close()
            raise ConnectError("the host relays nothing any more") from error
        near.settimeout(seconds)
        return near

    def count_with(self, counters: Callable[[], dict[str, int]]) -> None:
        """Sets what reports the counts of STATUS_FIELDS that this object does not know itself."""
        self._counters = counters

    def finish(self, body: bytes) -> None:
        """Waits until the ends of all connections are on their way, and sends ENDED."""
        self._streams.wait(END_SECONDS)
        self._link.send(Kind.ENDED, 0, body)

    def _read(self) -> None:
        """Serves the host until it says stop, or is gone."""
        try:
            while (frame := self._link.receive()).kind is not Kind.STOP:
                self._take(frame)
        except TransportError:
            self._streams.abandon()
        self._end()

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.OPEN:
            self._open(self._streams.accept(frame.number), frame.body.decode(errors="replace"))
        elif frame.kind in (Kind.QUOTE, Kind.STATUS):  # not here: an answer may have to wait
            threading.Thread(target=self._answer, args=(frame,), daemon=True).start()
        else:
            self._streams.take(frame)

    def _open(self, stream: Stream, name: str) -> None:
        listener = self._listeners.get(name)
        if listener is None or not listener.is_open:
            stream.refuse()
            return
        near, far = socket.socketpair()
        stream.join(far)
        listener.add(near)

    def _answer(self, frame: Frame) -> None:
        if frame.kind is Kind.QUOTE:
            self._link.send(Kind.QUOTE, frame.number, self._quoter(bytes(frame.body)))
        else:
            self._link.send(Kind.STATUS, frame.number, pack_status(self._counts()))

    def _counts(self) -> dict[str, int]:
        own = self._streams.counts()
        known = {
            "streams_opened": own["streams_opened"],
            "bytes_to_host": own["sent"],
            "bytes_from_host": own["received"],
        }
        given = self._counters()
        return known | {name: given[name] for name in STATUS_FIELDS if name in given}


class RelayedListener:
    """Connections that others made to one of the host's ports."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self.is_open = True

    def add(self, sock: socket.socket) -> None:
        self._waiting.put(sock)

    def accept(self, seconds: float) -> tuple[socket.socket, str] | None:
        """Returns the next connection and where it comes from, or None if nobody comes."""
        try:
            return self._waiting.get(timeout=max(seconds, 0.0)), "the host"
        except queue.Empty:
            return None

    def cut(self) -> None:
        """Nothing to do: `accept` waits for a short time only."""

    def close(self) -> None:
        """Refuses further connections, and ends those that nobody has taken."""
        self.is_open = False
        while (arrival := self.accept(0.0)) is not None:
            arrival[0].close()
