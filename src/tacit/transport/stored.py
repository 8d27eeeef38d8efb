"""Channels without a peer: a dealer's messages go to a stored run, and come from one.

NOTE [stored runs]
What a dealer sends depends on its keys, on shapes and on what is public. So it can run its program
before the parties have their inputs, with these channels in place of connections. In a rehearsal
all members run the program, nothing is opened, and a `Recording` keeps what the dealer receives:
names, shapes and public values, never a share. For each stored run the dealer then runs the program
again, alone and with fresh keys. A `WritingChannel` gives it the recorded messages and takes what
it sends, as the frames of a connection. Later the parties run the program without the dealer: a
`ReadingChannel` checks the stored frames as if they arrived now, operation, shapes and digest of
the public record included, so a program that differs from the dealer's is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from torch import Tensor

from ..errors import Party, PreprocessingRejected
from .channel import Channel, Expected, Goodbye, LastWord, Message, Poller, desync
from .devices import empty_for, to_device, to_host
from .mismatch import public_mismatch
from .public_record import KEPT, Excerpt, PublicRecord
from .shaping import LOOPBACK, Wire
from .wire.frames import HEADER, Header, Kind, bytes_of, layout, pack, parse_header, parse_table
from .wire.frames import plain as plain_memory

FIRST_CALL = 1 << 16  # operations of protocols are numbered from here on
NO_SESSION = bytes(16)
OTHER_WAY = "make stored runs again, with the program and the settings that are to use them"

Sink = Callable[[bytes | memoryview], None]
Recorded = tuple[Kind, int, list[Tensor]]


class Recording:
    """What a dealer receives in a rehearsal, by sender."""

    def __init__(self, peers: Collection[int]) -> None:
        self.messages: dict[int, list[Recorded]] = {peer: [] for peer in peers}

    def __call__(self, wanted: Mapping[int, Expected], arrived: Mapping[int, Message]) -> None:
        """Adds messages; raises PreprocessingRejected for one that belongs to a protocol's call."""
        for peer, message in arrived.items():
            kind, operation = wanted[peer].kind, wanted[peer].operation
            if message.size and operation >= FIRST_CALL:
                raise PreprocessingRejected(
                    "the dealer receives a message of " + Party(peer) + " in a computation",
                    limit="what a dealer sends in a stored run depends on no message to it",
                    remedy="run this program with the dealer online",
                    operation=operation,
                )
            self.messages[peer].append((kind, operation, [to_host(t) for t in message.tensors]))


class _Unconnected(Channel):
    """What channels without a peer have in common: nothing waits, and nobody listens."""

    stored = True
    heard = float("-inf")
    stuck = True

    def __init__(self, peer: int) -> None:
        self.peer, self.wire = peer, Wire(LOOPBACK)
        self._expected: Expected

    def send(self, kind: Kind, operation: int, digest: bytes, tensors: Sequence[Tensor]) -> int:
        """Drops the message."""
        return 0

    def expect(self, expected: Expected) -> None:
        self._expected = expected

    def recv(self, *, patient: bool = False) -> Message | None:
        """Raises: nothing comes from here."""
        raise PreprocessingRejected(
            "a message is expected that no stored run holds", operation=self._expected.operation
        )

    def flush(self) -> None:
        """Returns at once."""

    def settle(self) -> None:
        """Returns at once."""

    def check(self) -> None:
        """Returns at once."""

    def last_word(self, seconds: float = 0.0) -> LastWord | None:
        return None

    def say(self, word: LastWord) -> None:
        """Tells nobody."""

    def release(self) -> None:
        """Returns at once."""


class DroppingChannel(_Unconnected):
    """Takes what a dealer would send ahead while the receiver has it from a stored run."""


class WritingChannel(_Unconnected):
    """The dealer's side of a stored run: recorded messages come in, frames go to `sink`.

    The recorded messages carry no digest: public random numbers differ from run to run.
    """

    def __init__(self, peer: int, recorded: Sequence[Recorded], sink: Sink | None) -> None:
        super().__init__(peer)
        self._recorded, self._sink = deque(recorded), sink

    def send(self, kind: Kind, operation: int, digest: bytes, tensors: Sequence[Tensor]) -> int:
        how = layout(tuple([(tensor.shape, tensor.dtype) for tensor in tensors]))
        if self._sink is not None:
            self._sink(pack(kind, NO_SESSION, operation, how, how.size, digest=digest))
            for tensor in tensors:
                host = plain_memory(to_host(tensor))
                if host.nbytes:
                    self._sink(bytes_of(host))
        return how.size

    def recv(self, *, patient: bool = False) -> Message | None:
        expected = self._expected
        kind, operation, tensors = self._recorded.popleft() if self._recorded else (None, 0, [])
        if (kind, operation) != (expected.kind, expected.operation):
            raise PreprocessingRejected(
                "the dealer's program takes another course than in the rehearsal",
                limit="what a program does with secrets may depend on no value that differs "
                "between two runs of it",
                operation=expected.operation,
            )
        return Message(to_device(tensors, self.device), sum(t.nbytes for t in tensors))

    def end(self, record: PublicRecord) -> None:
        """Adds the last frame, with the dealer's public record."""
        if self._sink is not None:
            told = record.excerpt(most=KEPT, stopped=True).encode()
            how = layout(())
            self._sink(pack(Kind.BYE, NO_SESSION, 0, how, len(told), digest=record.digest) + told)


class ReadingChannel(_Unconnected):
    """A party's side of a stored run: what the dealer sent to it, in order, from `source`.

    source: yields the bytes of all frames. record: returns that of this party.
    """

    def __init__(
        self,
        peer: int,
        source: Iterator[bytes],
        *,
        rank: int,
        record: Callable[[], PublicRecord],
    ) -> None:
        super().__init__(peer)
        self._source, self._buffer = source, bytearray()
        self._rank, self._record = rank, record

    def recv(self, *, patient: bool = False) -> Message | None:
        expected = self._expected
        header = self._header()
        if header.kind == Kind.BYE or header.digest != expected.digest:
            raise self._other_program(header)
        table = self._take(header.table_bytes)
        specs = parse_table(bytes(table), header.tensors)
        same = (header.kind, header.operation) == (expected.kind, expected.operation)
        if not same or (expected.layout and bytes(table) != expected.layout.table):
            raise desync(
                expected,
                party=self._rank,
                peer=self.peer,
                kind=header.kind,
                operation=header.operation,
                specs=specs,
            )
        tensors = [empty_for(*spec, self.device) for spec in specs]
        for tensor in tensors:
            if tensor.nbytes:
                bytes_of(tensor)[:] = self._take(tensor.nbytes)
        return Message(to_device(tensors, self.device), header.size)

    def _header(self) -> Header:
        return parse_header(bytes(self._take(HEADER.size)))

    def _take(self, size: int) -> bytearray:
        """Returns the next bytes."""
        while len(self._buffer) < size:
            piece = next(self._source, None)
            if piece is None:
                raise PreprocessingRejected("the stored run ends within a message")
            self._buffer += piece
        taken = self._buffer[:size]
        del self._buffer[:size]
        return taken

    def _other_program(self, header: Header) -> PreprocessingRejected:
        """Returns the error for a program that is not the dealer's, with the first difference."""
        while header.kind != Kind.BYE:
            self._take(header.table_bytes + header.size)
            header = self._header()
        told = Excerpt.decode(bytes(self._take(header.size)), KEPT)
        words = {self.peer: Goodbye(header.digest, told)}
        found = public_mismatch(self._record(), self._rank, words, noticed=True)
        error = PreprocessingRejected(
            "this program is not the one that the dealer ran: " + found.reason,
            remedy=OTHER_WAY,
            party=self._rank,
            op=found.op,
        )
        error.known_lines = found.known_lines
        return error


class NoPeers(Poller):
    """Of a dealer that is alone: nothing ever comes."""

    def wait(self, peers: Collection[int], seconds: float) -> Collection[int]:
        return ()
