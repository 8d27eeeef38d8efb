"""The connections to each peer, which together make a channel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..wire.socket_channel import SocketChannel
from ..wire.tcp import TcpStream
from .handshake import Place

# From the connections of each direction, outgoing and incoming: the main one, then the stripes.
MakeChannel = Callable[[int, Sequence[TcpStream], Sequence[TcpStream]], SocketChannel]


class ConnectionPairs:
    """One connection for each peer and place, so that one process at a time has a rank.

    A connection is claimed before the other side is told that it is welcome, and added when the
    handshake is over. Streams that were added belong to this object.
    """

    def __init__(self, make_channel: MakeChannel) -> None:
        self.channels: dict[int, SocketChannel] = {}
        self._make_channel = make_channel
        self._lock = threading.Lock()
        self._claimed: dict[tuple[int, Place], TcpStream] = {}
        self._added: dict[tuple[int, Place], TcpStream] = {}
        self._num_stripes: dict[int, int] = {}  # of each direction, by peer

    def num_stripes(self, peer: int) -> int:
        """Returns how many stripes a peer has in each direction, 0 if it is not connected yet."""
        return self._num_stripes.get(peer, 0)

    def claim(self, peer: int, place: Place, stream: TcpStream) -> bool:
        """Claims a connection for a stream; returns False if another living stream has it."""
        key = peer, place
        with self._lock:
            holder = self._claimed.get(key) or self._added.get(key)
            if peer in self.channels or (holder and not holder.ended()):
                return False
            if (ended := self._added.pop(key, None)) is not None:
                ended.close()
            self._claimed[key] = stream
            return True

    @contextmanager
    def releasing_claims(self, stream: TcpStream) -> Iterator[None]:
        """At the end the stream has been added, or its claim is free again."""
        try:
            yield
        finally:
            with self._lock:
                others = {key: own for key, own in self._claimed.items() if own is not stream}
                self._claimed = others

    def add(self, peer: int, place: Place, stream: TcpStream, num_stripes: int) -> None:
        """Adds a stream whose handshake is over; the last one of a peer makes the channel."""
        stream.peer = peer
        with self._lock:
            self._added[peer, place] = stream
            self._num_stripes[peer] = num_stripes
            ways = [
                [self._added.get((peer, Place(out, n))) for n in range(num_stripes + 1)]
                for out in (True, False)
            ]
            there = [[stream for stream in way if stream is not None] for way in ways]
            if there == ways:
                self.channels[peer] = self._make_channel(peer, there[0], there[1])

    def close(self) -> None:
        """Closes all channels and streams."""
        with self._lock:
            for channel in self.channels.values():
                channel.release()
            for stream in self._added.values():
                stream.close()
