"""The two connections to each peer, which together make a channel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..wire.socket_channel import SocketChannel
from ..wire.tcp import TcpStream

MakeChannel = Callable[[int, TcpStream, TcpStream], SocketChannel]


class ConnectionPairs:
    """One connection for each peer and direction, so that one process at a time has a rank.

    A connection is claimed before the other side is told that it is welcome, and added when the
    handshake is over. Streams that were added belong to this object.
    """

    def __init__(self, make_channel: MakeChannel) -> None:
        self.channels: dict[int, SocketChannel] = {}
        self._make_channel = make_channel
        self._lock = threading.Lock()
        self._claimed: dict[tuple[int, bool], TcpStream] = {}  # by peer and "outgoing"
        self._added: dict[tuple[int, bool], TcpStream] = {}

    def claim(self, peer: int, outgoing: bool, stream: TcpStream) -> bool:
        """Claims a connection for a stream; returns False if another living stream has it."""
        key = peer, outgoing
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

    def add(self, peer: int, outgoing: bool, stream: TcpStream) -> None:
        """Adds a stream whose handshake is over; the second one of a peer makes the channel."""
        stream.peer = peer
        with self._lock:
            self._added[peer, outgoing] = stream
            other = self._added.get((peer, not outgoing))
            if other is not None:
                pair = (stream, other) if outgoing else (other, stream)
                self.channels[peer] = self._make_channel(peer, *pair)

    def close(self) -> None:
        """Closes all channels and streams."""
        with self._lock:
            for channel in self.channels.values():
                channel.release()
            for stream in self._added.values():
                stream.close()
