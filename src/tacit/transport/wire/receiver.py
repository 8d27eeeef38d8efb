"""The receiving half of a connection: bytes become the tensors that were expected."""

from __future__ import annotations

from ctypes import addressof, c_char, memmove

import torch
from torch import Tensor

from ...errors import FrameRejected
from ..channel import (
    LOOK_AROUND_SECONDS,
    PROGRESS_BYTES,
    Expected,
    Message,
    check_digest,
    check_size,
    desync,
)
from ..device_copies import Upload, arrives_in_host_memory
from ..devices import CPU, empty_for
from ..limits import SYSTEM_CLOCK, Clock, Limits
from .fixed_message import FixedMessage
from .frames import (
    HEADER,
    MAX_TABLE_BYTES,
    SHORT_BYTES,
    Header,
    Kind,
    Layout,
    Spec,
    bytes_of,
    layout,
    pack,
    parse_header,
    parse_table,
)
from .stripes import IncomingStripes, StripedTensors
from .tcp import PATIENCE, TcpStream

_BUFFER_BYTES = HEADER.size + MAX_TABLE_BYTES + SHORT_BYTES


class Receiver:
    """Reads the messages of one peer, without blocking, directly into the memory of new tensors.

    Headers and short messages go through a small buffer: one system call reads both.
    """

    def __init__(
        self,
        stream: TcpStream,
        party: int,
        peer: int,
        session: bytes,
        limits: Limits,
        clock: Clock = SYSTEM_CLOCK,
        stripes: IncomingStripes | None = None,
    ) -> None:
        self._stripes = stripes
        self._is_striped = False  # the part that is being read comes over the stripes
        self.device = CPU  # where the tensors go from here
        self.progress = 0.0  # when a head came, or the last PROGRESS_BYTES of a tensor were here
        self._last_read = 0.0
        self._since_progress = 0
        self._stream, self._party, self._peer = stream, party, peer
        self._session, self._limits = session, limits
        self._now = clock.now
        memory = bytearray(_BUFFER_BYTES)
        self._buffer = memoryview(memory)
        self._address = addressof(c_char.from_buffer(memory))
        self._start = self._end = 0
        self._expected: Expected
        self._head = b""  # the expected header and table, where they can be known
        self._tensors: list[Tensor] = []
        self._missing: list[memoryview] = []
        self._is_begun = False  # the stripes are at the part whose head is read next
        self._left = 0  # bytes of the part that is being read
        self._moved = 0  # bytes that had come over the stripes when that was noted last
        self._message: Message | None = None  # the one whose head has come
        self._uploading: Upload | None = None  # of its parts, to a GPU

    def expect(self, expected: Expected) -> None:
        """Allocates memory for the next message, before it arrives."""
        self._expected = expected
        how, into = expected.layout, expected.into
        if how is not None:
            kind, operation, _, digest, _ = expected
            self._head = pack(kind, self._session, operation, how, how.size, digest=digest)
            if into is None:
                self._make_room(how)
            else:
                self._tensors = [*into]

    def _make_room(self, how: Layout) -> None:
        self._tensors = [empty_for(shape, dtype, self.device) for shape, dtype in how.specs]

    def take(self, patient: bool) -> Message | None:
        """Returns the expected message, None while it is incomplete."""
        if self._message is None:
            message = self._recognise(patient) or self._open(patient)
            if message is None:
                return None
            if self._left == message.size <= self._end - self._start:
                self._unpack()
                return message
            self._message, self.progress = message, self._now()
            self._missing = [bytes_of(t) for t in reversed(self._tensors) if t.nbytes]
        started = self._now()
        while self._missing or self._left:
            if not (self._left or self._open_part(patient)):
                return None
            is_read = self._fill(patient)
            if not self._left:
                self._upload()
            if not is_read or self._last_read - started > LOOK_AROUND_SECONDS:
                return None
        message, self._message, self._uploading = self._message, None, None
        return message

    def take_fixed(self, message: FixedMessage, operation: int, digest: bytes) -> bool:
        """Returns whether a message is in its tensors after a bit; what else came is buffered."""
        if self._start < self._end:
            return False
        count = self._stream.receive_message(message, operation, digest, self._buffer)
        self._start, self._end = 0, count or 0
        return count is None

    def take_striped(self, message: StripedTensors, operation: int, digest: bytes) -> bool:
        """Like `take_fixed`, for a message over the stripes."""
        stripes, heads = self._stripes, message.heads
        assert stripes is not None  # `fixed` of the channel has made the message
        if not stripes.can_pass(len(message.slices), message.largest):
            return False
        if not self.take_fixed(heads, operation, digest):
            return False
        stripes.begin_compiled(message.slices)
        if stripes.wait(PATIENCE):
            return True
        self._is_begun = True  # `take` reads the heads once more, and waits
        self._start, self._end = 0, heads.size
        self._buffer[: heads.size] = heads.encoded(operation, digest)
        return False

    def _upload(self) -> None:
        """Copies a part that has come to its GPU, if others follow it; see `device_copies`."""
        if self._message is None or not arrives_in_host_memory(self.device):
            return
        if self._uploading is None and self._missing:
            self._uploading = Upload(self._tensors, self.device)
            self._message = self._message._replace(tensors=self._uploading.tensors)
        if self._uploading is not None:
            self._uploading.extend(self._message.size - sum(map(len, self._missing)))

    def in_message(self) -> bool:
        """Returns whether the head of a message or part has come, and not all of its bytes."""
        return self._message is not None and self._left > 0

    def _unpack(self) -> None:
        """Copies a message that is complete in the buffer."""
        for tensor in self._tensors:
            memmove(tensor.data_ptr(), self._address + self._start, tensor.nbytes)
            self._start += tensor.nbytes

    def _recognise(self, patient: bool) -> Message | None:
        """Returns a message whose head is, byte for byte, the expected one: the usual case."""
        how = self._expected.layout
        if how is None or how.size > self._limits.max_message_bytes:
            return None
        self._buffered(1, patient)
        end = self._start + len(self._head)
        if end > self._end or self._buffer[self._start : end] != self._head:
            return None
        self._start, self._left = end, how.size
        return Message(self._tensors, how.size)

    def _open(self, patient: bool) -> Message | None:
        """Returns a message with another head (stamped by a shaped link), or raises the fault."""
        if not self._buffered(HEADER.size, patient):
            return None
        header = parse_header(self._buffer[self._start : self._end])
        if not self._buffered(HEADER.size + header.table_bytes, patient):
            return None
        self._start += HEADER.size
        table = bytes(self._buffer[self._start : self._start + header.table_bytes])
        self._start += header.table_bytes
        size = self._check(header, table)
        self._left = header.size
        return Message(self._tensors, size, ((header.sent_at, header.size),))

    def _open_part(self, patient: bool) -> bool:
        """Returns whether the head of the next part has come, and raises if it is none."""
        if not self._buffered(HEADER.size, patient):
            return False
        header = parse_header(self._buffer[self._start : self._end])
        missing, message = sum(map(len, self._missing)), self._message
        count = header.tensors
        self._is_striped = self._stripes is not None and 0 < count <= len(self._stripes)
        kind = Kind.STRIPED if self._is_striped else Kind.PART
        how = (kind, count if self._is_striped else 0, 0, self._session, self._expected.operation)
        if header[2:7] != how or not _is_part(header.size, missing) or message is None:
            raise FrameRejected("it is not the next part of the message that has begun")
        check_digest(header.digest, self._expected, peer=self._peer)
        self._start += HEADER.size
        self._left, self.progress = header.size, self._now()
        stamps = (*message.stamps, (header.sent_at, header.size))
        self._message = message._replace(stamps=stamps)
        if self._is_striped:
            self._begin_stripes(count)
        return True

    def _begin_stripes(self, count: int) -> None:
        """Lets the next part come over the stripes, directly into the tensors."""
        assert self._stripes is not None
        views, left = [], self._left
        while left:
            target = self._missing.pop()
            views.append(target[:left])
            left -= len(views[-1])
            if len(target) > len(views[-1]):
                self._missing.append(target[len(views[-1]) :])
        self._moved = self._stripes.moved
        if not self._is_begun:
            self._stripes.begin(views, self._left, count, self._tensors)
        self._is_begun = False

    def _await_stripes(self, patient: bool) -> bool:
        """Returns whether all bytes of the part have come over the stripes."""
        assert self._stripes is not None
        is_here = self._stripes.wait(PATIENCE if patient else 0.0)
        moved, self._moved = self._moved, self._stripes.moved
        self._note(self._moved - moved)
        if is_here:
            self._left, self._is_striped = 0, False
        return is_here

    def _check(self, header: Header, table: bytes) -> int:
        """Returns the bytes of all tensors of a message, which may have more than its head says."""
        if header.session != self._session or header.kind not in (Kind.TENSORS, Kind.BYTES):
            raise FrameRejected("it has no place here")
        check_digest(header.digest, self._expected, peer=self._peer)
        check_size(header.size, kind=header.kind, peer=self._peer, limits=self._limits)
        kind, operation, how, *_ = self._expected
        same = header.operation == operation and header.kind == kind
        if not (same and how and table == how.table and header.tensors == len(how.specs)):
            specs = parse_table(table, header.tensors)
            if not same or how:
                raise self._desync(header, specs)
            how = _one_vector(specs)
        if header.size != how.size:
            is_part = _is_part(header.size, how.size) or not (header.size or self._stripes is None)
            if kind is not Kind.TENSORS or not is_part:
                raise FrameRejected("its size is not that of its tensors")
            check_size(how.size, kind=header.kind, peer=self._peer, limits=self._limits)
        if self._expected.layout is None:
            self._make_room(how)
        return how.size

    def _desync(self, header: Header, specs: list[Spec]) -> Exception:
        return desync(
            self._expected,
            party=self._party,
            peer=self._peer,
            kind=header.kind,
            operation=header.operation,
            specs=specs,
        )

    def _buffered(self, count: int, patient: bool) -> bool:
        """Reads if needed; returns whether so many bytes are in the buffer."""
        while self._end - self._start < count:
            if self._start == self._end:
                self._start = self._end = 0
            elif self._start + count > _BUFFER_BYTES:
                self._move_to_front()
            read = self._stream.read(self._buffer[self._end :], patient=patient)
            if not read:
                return False
            self._end += read
        return True

    def _move_to_front(self) -> None:
        kept = bytes(self._buffer[self._start : self._end])
        self._start, self._end = 0, len(kept)
        self._buffer[: len(kept)] = kept

    def _fill(self, patient: bool) -> bool:
        """Copies the next bytes into a tensor: those in the buffer first, then the socket's."""
        if self._is_striped:
            return self._await_stripes(patient)
        target = self._missing.pop()
        held = min(self._end - self._start, self._left, len(target))
        if held:
            target[:held] = self._buffer[self._start : self._start + held]
            self._start += held
            count = held
        else:
            count = self._stream.read(target[: self._left], patient=patient, whole=True)
            self._note(count)
        self._left -= count
        if count < len(target):
            self._missing.append(target[count:])
        return count > 0

    def _note(self, count: int) -> None:
        """Notes that bytes have arrived; less than PROGRESS_BYTES is not progress."""
        self._last_read = self._now()
        self._since_progress += count
        if self._since_progress >= PROGRESS_BYTES:
            self.progress, self._since_progress = self._last_read, 0


def _is_part(size: int, missing: int) -> bool:
    """Whether so many bytes may be the next part: little ones would stretch a message for ever."""
    return size == missing or PROGRESS_BYTES <= size < missing


def _one_vector(specs: list[Spec]) -> Layout:
    if len(specs) != 1 or len(specs[0].shape) != 1 or specs[0].dtype != torch.uint8:
        raise FrameRejected("a message of bytes must be one vector of uint8")
    return layout(tuple(specs))
