"""Byte streams over the one socket between host and enclave, each joined to an ordinary socket.

Two threads serve a stream: one sends what its socket gives, the other writes what arrives. A side
may have WINDOW bytes of a stream under way that the other has not written yet, so a stream that
nobody reads stops itself and none of the others. Host and enclave use the same code; to it the
bytes mean nothing, and TLS inside the enclave notices what a host changes.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from ..errors import FrameRejected, PeerClosed
from .edl import FRAME_BYTES, Frame, Kind, Link, Side

WINDOW = 1 << 21
MAX_STREAMS = 256
_CREDIT = struct.Struct("<I")


class Stream:
    """One stream. What arrives before it is joined to a socket waits for it."""

    _sock: socket.socket

    def __init__(self, link: Link, number: int) -> None:
        self._link, self._number = link, number
        self._changed = threading.Condition()
        self._arrived: deque[bytearray] = deque()
        self._queued = 0
        self._credit = WINDOW
        self._input_ended = self._reset = False
        self._takes_nothing = self._sent_all = False
        self._threads_left = 2
        self.sent = self.received = 0
        self.ended = threading.Event()

    def join(self, sock: socket.socket) -> None:
        """Gives the stream its socket, which it closes in the end, and starts it."""
        self._sock = sock
        for run in (self._send_all, self._write_all):
            threading.Thread(target=self._serve, args=(run,), daemon=True).start()

    def refuse(self) -> None:
        """Ends a stream for which there is no socket."""
        self.ended.set()
        self._link.send(Kind.RESET, self._number)

    # What the other side says; called by the one thread that reads the link --------------------

    def take(self, frame: Frame) -> None:
        """Handles a message about this stream, without waiting."""
        with self._changed:
            if frame.kind is Kind.BYTES:
                self._take_bytes(frame.body)
            elif frame.kind is Kind.CREDIT:
                self._credit += _CREDIT.unpack(frame.body)[0]
                if self._credit > WINDOW:
                    raise FrameRejected("more bytes of a stream were acknowledged than sent")
            else:  # END or RESET
                self._input_ended = True
                self._reset = self._reset or frame.kind is Kind.RESET
            self._changed.notify_all()

    def _take_bytes(self, data: bytearray) -> None:
        if self._queued + len(data) > WINDOW or self._input_ended:
            raise FrameRejected("bytes of a stream beyond its window, or after its end")
        self._arrived.append(data)
        self._queued += len(data)
        self.received += len(data)

    def abandon(self) -> None:
        """Ends the stream because the other side is gone; what has arrived is still written."""
        with self._changed:
            self._input_ended = self._reset = True
            self._changed.notify_all()

    # The two threads -----------------------------------------------------------------------------

    def _serve(self, run: Callable[[], None]) -> None:
        with suppress(PeerClosed):  # nobody is there to be told of this stream
            run()
        with self._changed:
            self._threads_left -= 1
            last = not self._threads_left
        if last:
            self._sock.close()
            self.ended.set()

    def _send_all(self) -> None:
        """Sends what the socket gives. After a reset it is read on, so that TCP ends in order."""
        buffer = memoryview(bytearray(FRAME_BYTES))
        while room := self._await_credit():
            try:
                count = self._sock.recv_into(buffer[:room])
            except OSError:
                self._takes_nothing = True
                break
            if not count:
                break
            with self._changed:
                discard = self._reset
                self._credit -= 0 if discard else count
            if not discard:
                self._link.send(Kind.BYTES, self._number, buffer[:count])
                self.sent += count
        with self._changed:
            self._sent_all = True
            last_word = Kind.RESET if self._takes_nothing else Kind.END
        self._link.send(last_word, self._number)

    def _await_credit(self) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._credit or self._reset)
            return FRAME_BYTES if self._reset else min(self._credit, FRAME_BYTES)

    def _write_all(self) -> None:
        while data := self._next():
            try:
                self._sock.sendall(data)
            except OSError:
                self._discard()
                return
            with self._changed:
                self._queued -= len(data)
                reset = self._reset
            if not reset:
                self._link.send(Kind.CREDIT, self._number, _CREDIT.pack(len(data)))
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def _next(self) -> bytearray | None:
        with self._changed:
            self._changed.wait_for(lambda: self._arrived or self._input_ended)
            return self._arrived.popleft() if self._arrived else None

    def _discard(self) -> None:
        """The socket takes nothing more: the other thread sends what it gave, then says so."""
        with self._changed:
            self._takes_nothing = True
            is_left_to_say = self._sent_all
        if is_left_to_say:
            self._link.send(Kind.RESET, self._number)
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        while (data := self._next()) is not None:
            with self._changed:
                self._queued -= len(data)
            self._link.send(Kind.CREDIT, self._number, _CREDIT.pack(len(data)))


class Streams:
    """All streams of one link. Numbers of the host are even, those of the enclave odd."""

    def __init__(self, link: Link, side: Side) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._first = 2 if side is Side.HOST else 1
        self._next = self._first
        self._sent = self._received = self.opened = 0

    def open(self, sock: socket.socket, text: str) -> None:
        """Joins a socket to a new stream, and tells the other side its port or its address."""
        with self._lock:
            number, self._next = self._next, self._next + 2
        stream = self._add(number)
        try:
            self._link.send(Kind.OPEN, number, text.encode())
        except PeerClosed:
            stream.ended.set()
            raise
        stream.join(sock)

    def accept(self, number: int) -> Stream:
        """Returns a stream that the other side has opened, which has no socket yet."""
        self._check_new(number)
        return self._add(number)

    def take(self, frame: Frame) -> None:
        """Handles a message about a stream; one about a stream that has ended says nothing."""
        with self._lock:
            stream = self._streams.get(frame.number)
        if stream is not None:
            stream.take(frame)

    def counts(self) -> dict[str, int]:
        """Returns how many streams there were, and the bytes sent and received on all of them."""
        with self._lock:
            self._forget_ended()
            live = self._streams.values()
            return {
                "streams_opened": self.opened,
                "sent": self._sent + sum(one.sent for one in live),
                "received": self._received + sum(one.received for one in live),
            }

    def abandon(self) -> None:
        """Ends all streams: the other side of the link is gone."""
        with self._lock:
            for stream in self._streams.values():
                stream.abandon()

    def wait(self, seconds: float) -> None:
        """Waits until all streams have ended, or so many seconds have passed."""
        until = monotonic() + seconds
        with self._lock:
            live = list(self._streams.values())
        for stream in live:
            stream.ended.wait(max(0.0, until - monotonic()))

    def _check_new(self, number: int) -> None:
        with self._lock:
            if number % 2 == self._first % 2 or number in self._streams:
                raise FrameRejected(f"the stream {number} is not the other side's to open")
            if len(self._streams) >= MAX_STREAMS:
                raise FrameRejected(f"more than {MAX_STREAMS} streams at a time")

    def _add(self, number: int) -> Stream:
        stream = Stream(self._link, number)
        with self._lock:
            self._forget_ended()
            self._streams[number] = stream
            self.opened += 1
        return stream

    def _forget_ended(self) -> None:
        for number, stream in list(self._streams.items()):
            if stream.ended.is_set():
                self._sent += stream.sent
                self._received += stream.received
                del self._streams[number]
