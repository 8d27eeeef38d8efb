"""Large messages over several connections at once.

NOTE [stripes]
One connection encrypts on one core. Two parties with cores to spare have more connections for each
direction, the stripes: each under TLS of its own, between the same pinned keys, in the same session
and with the same ranks. A thread of its own drives each of them, without the interpreter's lock
(csrc/slice_threads.h). Where TLS is not compiled, or has to be renewed within a slice, it is a
thread of Python. All heads of messages and parts travel on the main connection, in order. If a
part is large, its bytes are cut into slices, one for each stripe, and its head (`Kind.STRIPED`)
says how many. On its stripe a slice begins with a head of its own: which part of the session it
belongs to, where it lies in it, and its size. The receiver knows all of these from the head of the
part, and refuses any other bytes: no place or size is ever read from a stripe. The bytes of a slice
go directly to their place in the tensor. The receiver does not read a stripe before the head of the
part has come, so what is under way is bounded by the buffers of the system.

A slice keeps the memory of its bytes until its thread has left it, or ended: a peer that resets one
stripe and goes on reading another must not be sent what lies there next. When a stripe fails, the
others stop.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ...errors import FrameRejected, TransportError
from .fixed_message import FOREIGN, FixedMessage, FixedTensors
from .frames import MAGIC, VERSION, Kind, Layout, bytes_of
from .openssl_session import compiled
from .tcp import Part, TcpStream

SLICE_BYTES = 1 << 16  # a stripe gets at least so many of a part
MOST_COPIED = 1 << 23  # bytes of a message that is copied before it is sent
_CORES_FOR_EACH = 2  # as measured on 16 cores: eight make 3.9 GB/s, four 2.8
_MOST_BY_DEFAULT = 8
_HEAD = struct.Struct("<4sBBH16sQQQ")  # stripe, session, number of the part, start, end
_STOP_SECONDS = 1.0


def default_stripes() -> int:
    """Returns how many stripes the cores that this process may use can drive."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min((cores or 1) // _CORES_FOR_EACH, _MOST_BY_DEFAULT))


def common_stripes(ours: int, theirs: int) -> int:
    """Returns how many stripes each direction of a pair has; a single one would be of no use."""
    both = min(ours, theirs)
    return both if both > 1 else 0


def num_slices(size: int, num_stripes: int) -> int:
    """Returns into how many slices a part of so many bytes is cut; 0: it stays in one piece."""
    count = min(num_stripes, size // SLICE_BYTES)
    return count if count > 1 else 0


def slices(size: int, count: int) -> Iterator[tuple[int, int]]:
    """Yields start and end of each slice of a part."""
    for index in range(count):
        yield size * index // count, size * (index + 1) // count


def views_between(views: Sequence[memoryview], start: int, end: int) -> list[memoryview]:
    """Returns bytes [start, end) of views that follow one another."""
    found, first = [], 0
    for view in views:
        low, high = max(start - first, 0), min(end - first, len(view))
        if low < high:
            found.append(view[low:high])
        first += len(view)
    return found


class Slice(NamedTuple):
    """Bytes [start, end) of a part, which are in `views`; `owners` keep their memory alive."""

    views: list[memoryview]
    start: int
    end: int
    owners: Sequence[Tensor]

    @property
    def size(self) -> int:
        return self.end - self.start


class StripedTensors(FixedTensors):
    """Tensors whose memory stays, as a message over stripes; `heads` go before its slices."""

    def __init__(
        self, tensors: Sequence[Tensor], layout: Layout, heads: FixedMessage, count: int
    ) -> None:
        super().__init__(tensors, layout)
        views = [bytes_of(x) for x in tensors if x.nbytes]
        places = slices(layout.size, count)
        self.heads = heads
        self.slices = [Slice(views_between(views, *place), *place, tensors) for place in places]
        self.largest = max(one.size for one in self.slices)


class Stripes(ABC):
    """The stripes of one direction, and what is under way on them: one part at a time."""

    _sends: bool
    _signal = -1  # the file that tells that a part has passed

    def __init__(self, streams: Sequence[TcpStream], session: bytes, peer: int) -> None:
        self.streams, self._session, self._peer = streams, session, peer
        for stream in streams:
            stream.carry_bulk()
            with contextlib.suppress(OSError):
                stream.keep_alive()  # no heartbeats pass here
        self._moved = [0] * len(streams)
        self._given: list[tuple[bytes, Slice] | None] = [None] * len(streams)
        self._num_running = 0
        self._number = 0  # of the next part
        self._failure: TransportError | None = None
        self._stopping = False
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._compiled: Any = None  # the threads without the interpreter's lock, once they run
        self._passing: Sequence[Slice] = ()  # what those pass

    def __len__(self) -> int:
        return len(self.streams)

    @property
    def moved(self) -> int:
        """How many bytes have passed so far on all stripes."""
        return sum(self.moved_by_each())

    def moved_by_each(self) -> list[int]:
        """Returns how many bytes have passed so far on each stripe."""
        if self._compiled is None:
            return [*self._moved]
        return [sum(both) for both in zip(self._moved, self._compiled.moved, strict=True)]

    def begin(
        self, views: Sequence[memoryview], size: int, count: int, owners: Sequence[Tensor]
    ) -> None:
        """Begins to pass a part of `size` bytes in so many slices; they are in these tensors."""
        places = slices(size, count)
        parts = [Slice(views_between(views, *place), *place, owners) for place in places]
        if self.can_pass(len(parts), max(one.size for one in parts)):
            self.begin_compiled(parts)
        else:
            self._begin_here(parts)

    def can_pass(self, count: int, size: int) -> bool:
        """Returns whether compiled code can pass so many slices now, of so many bytes at most."""
        whole = size + _HEAD.size
        is_idle = not (self._passing or self._failure or self._stopping)
        return is_idle and all(stream.is_lent(whole) for stream in self.streams[:count])

    @property
    def is_passing(self) -> bool:
        """Whether the last call of `wait` did not see the end of what compiled code passes."""
        return bool(self._passing)

    def begin_compiled(self, parts: Sequence[Slice], *, copies: bool = False) -> None:
        """Begins to pass slices for which `can_pass` is True.

        copies: what is sent has been copied when it returns.
        """
        if self._compiled is None:
            self._compiled = compiled().SliceThreads(len(self), self._sends, self._signal)
        self._passing = parts
        lent = [
            (stream.lend(one.size + _HEAD.size), self._head(index, one), one.views)
            for index, (stream, one) in enumerate(zip(self.streams, parts, strict=False))
        ]
        self._number += 1
        self._compiled.begin(lent, copies)

    def _head(self, index: int, one: Slice) -> bytes:
        fields = index, self._session, self._number, one.start, one.end
        return _HEAD.pack(MAGIC, VERSION, Kind.STRIPED, *fields)

    def _begin_here(self, parts: Sequence[Slice]) -> None:
        if not self._threads:
            self._start_threads()
        with self._changed:
            for index, one in enumerate(parts):
                self._given[index] = self._head(index, one), one
            self._number += 1
            self._num_running = len(parts)
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Returns whether the part has passed, after so long at most; raises if a stripe failed."""
        if self._passing:
            return self._await_compiled(seconds)
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self._num_running, seconds)
            if self._failure is not None:
                raise self._failure
            return not self._num_running

    def _await_compiled(self, seconds: float) -> bool:
        outcome = self._compiled.wait(round(1e3 * seconds))
        if outcome < 0:
            failed = self.streams[self._compiled.failed]
            self._failure = self._foreign() if outcome == FOREIGN else failed.failure(outcome)
            raise self._failure
        if outcome:
            self._passing = ()
        return bool(outcome)

    def _foreign(self) -> TransportError:
        what = "a stripe brings other bytes than were announced"
        return FrameRejected(what, party=self._peer)

    def stop(self) -> None:
        """Ends the threads, even in the middle of a slice, and closes the connections."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for stream in self.streams:
            stream.cut()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)
        if self._compiled is not None:
            self._compiled.stop()
        for stream in self.streams:
            stream.close()

    def _start_threads(self) -> None:
        name = f"tacit-stripe-{self._peer}"
        for index in range(len(self.streams)):
            thread = threading.Thread(target=self._run, args=(index,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, index: int) -> None:
        while (one := self._next_slice(index)) is not None:
            failure = None
            try:
                self._pass(index, *one)
            except TransportError as error:
                failure = error
            del one  # and with it the memory, before anybody is told that it has passed
            with self._changed:
                self._failure = self._failure or failure
                self._num_running -= not self._stopping
                if self._failure or not self._num_running:
                    self._notify()

    @property
    def _is_over(self) -> bool:
        return self._stopping or self._failure is not None

    def _next_slice(self, index: int) -> tuple[bytes, Slice] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._given[index])
            one, self._given[index] = self._given[index], None
            return None if self._stopping else one

    def _notify(self) -> None:
        """Tells whoever waits that the part has passed, or that a stripe failed."""
        self._changed.notify_all()

    @abstractmethod
    def _pass(self, index: int, head: bytes, one: Slice) -> None:
        """Passes a slice with its head on a stripe."""


class OutgoingStripes(Stripes):
    """The stripes to a peer."""

    _sends = True

    def _pass(self, index: int, head: bytes, one: Slice) -> None:
        stream, parts = self.streams[index], list[Part]([head, *one.views])
        for part in parts:
            rest = memoryview(part)
            while rest and not self._is_over:
                count = stream.write((rest,), patient=True)
                self._moved[index] += count
                rest = rest[count:]


class IncomingStripes(Stripes):
    """The stripes from a peer. `fileno` is readable when the part is here, or a stripe failed."""

    _sends = False

    def __init__(self, streams: Sequence[TcpStream], session: bytes, peer: int) -> None:
        super().__init__(streams, session, peer)
        self._ended, self._signal = os.pipe()
        os.set_blocking(self._ended, False)

    def fileno(self) -> int:
        return self._ended

    def wait(self, seconds: float) -> bool:
        if is_here := super().wait(seconds):
            with contextlib.suppress(BlockingIOError):
                os.read(self._ended, 1)
        return is_here

    def stop(self) -> None:
        was_stopped = self._stopping
        super().stop()
        if not was_stopped:  # by then the numbers may be those of other files
            with self._changed:
                os.close(self._ended)
                os.close(self._signal)

    def _notify(self) -> None:
        super()._notify()
        if not self._stopping:
            os.write(self._signal, b".")

    def _pass(self, index: int, head: bytes, one: Slice) -> None:
        found = bytearray(len(head))
        self._fill(index, memoryview(found))
        if found != head and not self._is_over:
            raise self._foreign()
        for view in one.views:
            self._fill(index, view)

    def _fill(self, index: int, view: memoryview) -> None:
        while view and not self._is_over:
            count = self.streams[index].read(view, patient=True, whole=True)
            self._moved[index] += count
            view = view[count:]
