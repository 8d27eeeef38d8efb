"""Bytes from outside are a message or are refused; nothing else can happen."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.transport.parties import hello

from tacit.errors import (
    ConfigError,
    FrameRejected,
    HandshakeMismatch,
    PeerClosed,
    ProtocolDesync,
    PublicMismatch,
)
from tacit.protocols.public_operands import CallRecord
from tacit.transport import Hello, Limits, Spec
from tacit.transport.channel import Abort, Expected, Goodbye
from tacit.transport.wire.control import decode, encode
from tacit.transport.wire.frames import (
    DTYPES,
    HEADER,
    MAGIC,
    NO_DIGEST,
    VERSION,
    Kind,
    layout,
    pack,
    parse_header,
    parse_table,
)
from tacit.transport.wire.receiver import Receiver
from tacit.transport.wire.tcp import TcpStream

SESSION = bytes(range(16))
WANTED = layout((Spec((2, 3), torch.int64), Spec((), torch.uint8)))


class Script(TcpStream):
    """A stream that plays back bytes, a few at a time, and then has no more for now."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data, self._step = data, step

    def read(self, view: memoryview, *, patient: bool = False, whole: bool = False) -> int:
        count = min(len(view), self._step, len(self._data))
        view[:count] = self._data[:count]
        self._data = self._data[count:]
        return count


def receive(data: bytes, expected: Expected, step: int = 1 << 20) -> list[torch.Tensor] | None:
    inbox = Receiver(Script(data, step), 0, 1, SESSION, Limits(max_message_bytes=1 << 20))
    inbox.expect(expected)
    message = inbox.take(patient=False)
    return message.tensors if message else None


def message(size: int = WANTED.size) -> bytes:
    return pack(Kind.TENSORS, SESSION, 7, WANTED, size) + bytes(range(WANTED.size))


EXPECTED = Expected(Kind.TENSORS, 7, WANTED)


@pytest.mark.parametrize("step", [1, 3, 52, 1 << 20])
def test_a_message_in_pieces_is_the_same_message(step: int) -> None:
    tensors = receive(message(), EXPECTED, step)
    assert tensors is not None
    assert [(t.shape, t.dtype) for t in tensors] == [(s.shape, s.dtype) for s in WANTED.specs]
    assert b"".join(t.numpy().tobytes() for t in tensors) == bytes(range(WANTED.size))


@pytest.mark.parametrize("length", range(0, len(message()), 7))
def test_a_message_that_is_cut_short_is_not_complete(length: int) -> None:
    assert receive(message()[:length], EXPECTED) is None


@given(st.binary(max_size=300), st.booleans())
@settings(max_examples=400, deadline=None)
def test_rubbish_is_refused_or_incomplete(data: bytes, plausible: bool) -> None:
    data = MAGIC + bytes([VERSION]) + data if plausible else data
    with suppress(FrameRejected):
        assert receive(data, EXPECTED) is None


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_a_message_with_any_byte_changed_is_never_misread(data: st.DataObject) -> None:
    """A change is refused, explained, or lies in the values or the time stamp.

    A change of the digest is a difference in what is public.
    """
    original = message()
    at = data.draw(st.integers(0, len(original) - 1))
    value = data.draw(st.integers(0, 255))
    changed = original[:at] + bytes([value]) + original[at + 1 :]
    in_stamp = HEADER.size - 24 <= at < HEADER.size - 16
    in_values = at >= len(original) - WANTED.size
    with suppress(FrameRejected, ProtocolDesync, PublicMismatch):
        unread = receive(changed, EXPECTED) is None
        assert unread or in_stamp or in_values or changed == original


@given(st.binary(max_size=200), st.integers(0, 10))
@settings(max_examples=300, deadline=None)
def test_parsers_raise_nothing_but_frame_rejected(data: bytes, tensors: int) -> None:
    for parse in (
        lambda: parse_header(data),
        lambda: parse_header(MAGIC + bytes([VERSION]) + data),
        lambda: parse_table(data, tensors),
        lambda: Hello.decode(data),
        lambda: decode(MAGIC + bytes([VERSION]) + data, SESSION),
    ):
        with suppress(FrameRejected):
            parse()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: parties.example.org\r\nAccept: text/html, text/plain\r\n\r\n",
        message(size=WANTED.size + 1),
        message(size=1 << 40),
        message().replace(SESSION, bytes(16)),
        pack(Kind.ABORT, SESSION, 7, WANTED, WANTED.size),
    ],
    ids=["http", "size", "over the cap", "session", "kind"],
)
def test_a_bad_message_is_refused(data: bytes) -> None:
    with pytest.raises(FrameRejected):
        receive(data, EXPECTED)


def test_bytes_must_be_one_vector() -> None:
    data = pack(Kind.BYTES, SESSION, 7, WANTED, WANTED.size)
    with pytest.raises(FrameRejected, match="one vector"):
        receive(data, Expected(Kind.BYTES, 7, None))


@pytest.mark.parametrize("length", [11, 1 << 46, 1 << 62, (1 << 64) - 1])
def test_a_table_cannot_ask_for_more_memory_than_the_message(length: int) -> None:
    table = bytes([DTYPES.index(torch.uint8), 1]) + length.to_bytes(8, "little")
    data = HEADER.pack(MAGIC, VERSION, Kind.BYTES, 1, len(table), SESSION, 7, 10, 0, NO_DIGEST)
    with pytest.raises(FrameRejected, match="size"):
        receive(data + table + bytes(10), Expected(Kind.BYTES, 7, None))


RECORD = CallRecord(compare=lambda: None)
for _name in ("share", "aten::add.Tensor"):
    RECORD.absorb(_name, ())
WORDS = [
    Goodbye(),
    Goodbye(RECORD.digest, RECORD.excerpt()),
    Abort(3, 1 << 60, "KeyError"),
    Abort(3, 1 << 60, "PublicMismatch", RECORD.excerpt()),
]


@pytest.mark.parametrize("word", WORDS, ids=range(len(WORDS)))
def test_last_words_survive_the_wire(word: Abort | Goodbye) -> None:
    data = encode(word, SESSION)
    assert decode(data, SESSION) == word
    assert all(decode(data[:cut], SESSION) is None for cut in range(len(data)))


def test_a_hello_survives_the_wire() -> None:
    original = hello(1, 3)
    assert Hello.decode(original.encode()) == original


@pytest.mark.parametrize(
    "changes",
    [{"session": b""}, {"rank": 2}, {"parties": 1}],
)
def test_a_hello_that_cannot_be_is_a_config_error(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(changes))):
        hello(**{"rank": 0, **changes})  # type: ignore[arg-type]


def test_what_cannot_be_sent_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="complex64"):
        layout((Spec((1,), torch.complex64),))
    with pytest.raises(ConfigError, match="concatenate"):
        layout((Spec((1,) * 8, torch.int64),) * 1000)
    assert HandshakeMismatch("", field="ring").field == "ring"


def test_a_stream_that_this_side_has_closed_has_ended() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with theirs:
        stream = object.__new__(TcpStream)
        stream._sock = ours
        stream.close()
        assert stream.ended()
        assert stream.readable(0.0)
        for use in (stream.unacknowledged, lambda: stream.read(memoryview(bytearray(1)))):
            with pytest.raises(PeerClosed):
                use()
