"""The sending half of a connection: short messages at once, long ones in the background."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from ctypes import string_at
from typing import NamedTuple

from torch import Tensor

from ...errors import TransportError
from ..channel import LOOK_AROUND_SECONDS, PROGRESS_BYTES
from ..devices import ReadyEvent
from ..limits import SYSTEM_CLOCK, Clock, Limits
from ..timeouts import stalled
from .fixed_message import FixedMessage
from .frames import SHORT_BYTES, bytes_of
from .stripes import OutgoingStripes, StripedTensors, num_slices
from .tcp import PATIENCE, Part, TcpStream

_STOP_SECONDS = 1.0
_SPREADING_SECONDS = 2e-3  # that a message over the stripes waits for the one before
_SHORTEST_PAUSE = 1e-4
_LONGEST_PAUSE = 0.05


class _Outgoing(NamedTuple):
    parts: list[Part]
    size: int
    owners: Sequence[Tensor]  # keep the memory of the parts alive
    ready: ReadyEvent | None = None  # when the parts may be read
    spread: Sequence[memoryview] = ()  # what goes over the stripes, after the parts


class Sender:
    """Messages to one peer, in order.

    Only the thread of the mesh adds messages, and one stays in the queue until it is sent: so an
    empty queue tells that thread that it may write to the stream itself.
    """

    def __init__(
        self,
        stream: TcpStream,
        peer: int,
        limits: Limits,
        look_around: Callable[[], None],
        clock: Clock = SYSTEM_CLOCK,
        stripes: OutgoingStripes | None = None,
    ) -> None:
        self._stripes = stripes
        self.failure: TransportError | None = None
        self._look_around, self._now = look_around, clock.now
        self._stream, self._peer, self._limits = stream, peer, limits
        self._queue: deque[_Outgoing] = deque()
        self._queued = 0
        self._progress = math.inf  # when the peer last took something, while it should
        self._spread_progress, self._spread_bytes = math.inf, 0  # the same of `send_striped`
        self._stopping = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def send(
        self,
        head: bytes,
        tensors: Sequence[Tensor],
        size: int,
        ready: ReadyEvent | None = None,
        *,
        waits: bool = True,
        striped: bool = False,
    ) -> None:
        """Sends `head` and the memory of plain tensors, `size` bytes in all, once ready.

        waits: while too much is queued. striped: the tensors go over the stripes.
        """
        if self.failure is not None:
            raise self.failure
        if striped or size > SHORT_BYTES:
            views = [bytes_of(tensor) for tensor in tensors if tensor.nbytes]
            inline, spread = ([], views) if striped else (views, [])
            self._enqueue(_Outgoing([head, *inline], size, tensors, ready, spread), waits)
            return
        if ready is not None:
            ready.wait()
        data = head + b"".join([string_at(t.data_ptr(), t.nbytes) for t in tensors])
        sent = 0 if self._queue else self._stream.write((data,))
        if sent < size:
            self._enqueue(_Outgoing([memoryview(data)[sent:]], size - sent, ()), waits)

    def send_message(self, message: FixedMessage, operation: int, digest: bytes) -> None:
        """Sends what the tensors of a short message hold now."""
        if self.failure is not None:
            raise self.failure
        sent = 0 if self._queue else self._stream.send_message(message, operation, digest)
        if sent < message.size:
            rest = memoryview(message.encoded(operation, digest))[sent:]
            self._enqueue(_Outgoing([rest], len(rest), ()), waits=True)

    def send_striped(self, message: StripedTensors, operation: int, digest: bytes) -> None:
        """Sends what the tensors of a message over the stripes hold now."""
        if self.failure is not None:
            raise self.failure
        heads, stripes = message.heads, self._stripes
        assert stripes is not None  # `fixed` of the channel has made the message
        is_free = not self._queue and not self._is_spreading(_SPREADING_SECONDS)
        if is_free and stripes.can_pass(len(message.slices), message.largest):
            sent = self._stream.send_message(heads, operation, digest)
            if sent == heads.size:
                stripes.begin_compiled(message.slices, copies=True)
                self._spread_progress, self._spread_bytes = self._now(), stripes.moved
                return
        else:
            sent = 0
        rest = memoryview(heads.encoded(operation, digest))[sent:]
        copies = [tensor.clone() for tensor in message]
        views = [bytes_of(tensor) for tensor in copies if tensor.nbytes]
        size = len(rest) + message.layout.size
        self._enqueue(_Outgoing([rest], size, copies, spread=views), waits=True)

    def _is_spreading(self, seconds: float = 0.0) -> bool:
        """Returns whether what `send_striped` has begun is on its way, after so long at most."""
        stripes = self._stripes
        if stripes is None or not stripes.is_passing or self._queue:
            self._spread_progress = math.inf
            return False  # or the background thread sees its end before it uses the stripes
        try:
            is_over = stripes.wait(seconds)
        except TransportError as error:
            self.failure = error
            raise
        if is_over:
            self._spread_progress = math.inf
        elif math.isinf(self._spread_progress) or self._has_moved(self._spread_bytes):
            self._spread_progress, self._spread_bytes = self._now(), stripes.moved
        return not is_over

    def _has_moved(self, noted: int) -> bool:
        assert self._stripes is not None
        return self._stripes.moved - noted >= PROGRESS_BYTES

    def has_space(self, size: int) -> bool:
        """Returns whether a message of so many bytes can be queued at once."""
        return not self._queue or self._queued + size <= self._limits.max_queued_bytes

    def await_space(self, size: int) -> None:
        """Waits until a message of so many bytes can be queued."""
        self._await(lambda: self.has_space(size))

    def _enqueue(self, message: _Outgoing, waits: bool) -> None:
        if waits:
            self.await_space(message.size)
        with self._changed:
            self._queue.append(message)
            self._queued += message.size
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f"tacit-sender-{self._peer}", daemon=True
            )
            self._thread.start()

    def flush(self) -> None:
        self._await(lambda: not self._queue)
        while self._is_spreading(LOOK_AROUND_SECONDS):
            self._look_around()

    def _await(self, condition: Callable[[], bool]) -> None:
        """Waits for the background thread; `look_around` also detects a peer that takes nothing."""
        while not condition() and self.failure is None:
            with self._changed:
                over = self._changed.wait_for(
                    lambda: self.failure is not None or condition(), LOOK_AROUND_SECONDS
                )
            if not over:
                self._look_around()
        if self.failure is not None:
            raise self.failure

    def settle(self) -> None:
        """Waits until all bytes have reached the peer's machine, or the peer has closed."""
        left, pause = math.inf, _SHORTEST_PAUSE
        while (now_left := self._unacknowledged()) and not self._stream.ended():
            if now_left < left:
                left, self._progress = now_left, self._now()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            self._look_around()
        self._progress = math.inf

    def _unacknowledged(self) -> int:
        streams = [self._stream, *(self._stripes.streams if self._stripes else ())]
        return sum(stream.unacknowledged() for stream in streams)

    def check(self, heard: float) -> None:
        """Raises an earlier failure, or PeerTimeout if the peer, last heard then, takes nothing."""
        if self.failure is None:
            self._is_spreading()
            since = min(self._progress, self._spread_progress)
            if self._now() - since > self._limits.deadline:
                self.failure = stalled(self._peer, since, heard, self._now(), self._limits)
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Ends the background thread, even in the middle of a message."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while self._has_work():
            try:
                if (ready := self._queue[0].ready) is not None:
                    ready.wait()
                self._write(self._queue[0].parts)
                if self._queue[0].spread:
                    self._spread(self._queue[0])
            except TransportError as error:
                self.failure = error
            with self._changed:
                self._queued -= self._queue[0].size
                self._queue.popleft()
                self._changed.notify_all()

    def _has_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping)
            return not self._stopping and self.failure is None

    def _write(self, parts: list[Part]) -> None:
        self._progress, passed = self._now(), 0
        while parts and not self._stopping:
            sent = self._stream.write(parts, patient=True)
            parts = _after(parts, sent)
            passed += sent
            if passed >= PROGRESS_BYTES:
                self._progress, passed = self._now(), 0
        self._progress = math.inf

    def _spread(self, message: _Outgoing) -> None:
        """Sends a part over the stripes; its head is sent already."""
        assert self._stripes is not None
        views, size = message.spread, sum(map(len, message.spread))
        self._await_stripes()  # of what `send_striped` has begun
        self._stripes.begin(views, size, num_slices(size, len(self._stripes)), message.owners)
        self._await_stripes()

    def _await_stripes(self) -> None:
        assert self._stripes is not None
        self._progress, noted = self._now(), self._stripes.moved
        while not self._stripes.wait(PATIENCE) and not self._stopping:
            if self._has_moved(noted):
                self._progress, noted = self._now(), self._stripes.moved
        self._progress = math.inf


def _after(parts: list[Part], count: int) -> list[Part]:
    """Returns what remains of `parts` after so many bytes."""
    for index, part in enumerate(parts):
        if count < len(part):
            return [memoryview(part)[count:], *parts[index + 1 :]]
        count -= len(part)
    return []
