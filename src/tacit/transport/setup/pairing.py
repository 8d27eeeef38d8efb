"""The connections to each peer: one process has a seat at a time, and two make a channel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..wire.socket_channel import SocketChannel
from ..wire.tcp import TcpStream

Pair = Callable[[int, TcpStream, TcpStream], SocketChannel]


class Seats:
    """A seat for each peer and direction: claimed before its holder is told that it is welcome,
    taken when the handshake is over. Streams of taken seats belong to this object.
    """

    def __init__(self, pair: Pair) -> None:
        self.channels: dict[int, SocketChannel] = {}
        self._pair = pair
        self._lock = threading.Lock()
        self._claims: dict[tuple[int, bool], TcpStream] = {}  # by peer and "outgoing"
        self._taken: dict[tuple[int, bool], TcpStream] = {}

    def claim(self, peer: int, outgoing: bool, stream: TcpStream) -> bool:
        """Whether the seat is free, or its holder gone, and now this stream's."""
        seat = peer, outgoing
        with self._lock:
            known = self._claims.get(seat) or self._taken.get(seat)
            if peer in self.channels or (known and not known.ended()):
                return False
            if (gone := self._taken.pop(seat, None)) is not None:
                gone.close()
            self._claims[seat] = stream
            return True

    @contextmanager
    def claims_of(self, stream: TcpStream) -> Iterator[None]:
        """In the end a stream has taken the seat that it claimed, or claims it no longer."""
        try:
            yield
        finally:
            with self._lock:
                kept = {seat: own for seat, own in self._claims.items() if own is not stream}
                self._claims = kept

    def take(self, peer: int, outgoing: bool, stream: TcpStream) -> None:
        """Keep a stream whose handshake is over; with its counterpart it is a channel."""
        stream.peer = peer
        with self._lock:
            self._taken[peer, outgoing] = stream
            other = self._taken.get((peer, not outgoing))
            if other is not None:
                pair = (stream, other) if outgoing else (other, stream)
                self.channels[peer] = self._pair(peer, *pair)

    def clear(self) -> None:
        """Close everything."""
        with self._lock:
            for channel in self.channels.values():
                channel.release()
            for stream in self._taken.values():
                stream.close()
