"""The interface between an enclave and its host: a fixed set of messages over one unix socket.

Every message is a kind, a number and a body. RULES says who may send which kind, with what size;
anything else ends the connection. No message returns a secret: `BYTES` carries what TLS inside the
enclave has encrypted, a quote and a certificate are public, `STATUS` has the counts of
STATUS_FIELDS and no text, and `ENDED` has only what other parties may know of an error: a text and
which workers are at fault.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Collection
from contextlib import suppress
from enum import Enum, IntEnum, IntFlag
from typing import NamedTuple

from ..errors import FrameRejected, PeerClosed

NONCE_BYTES = 32
FRAME_BYTES = 1 << 18  # of a relayed stream in one message
MAX_TEXT_BYTES = 200
END_SECONDS = 10.0  # in which an enclave that ends waits for the ends of its connections
MAX_DOCUMENT_BYTES = 1 << 21  # a configuration, or a quote with its manifest
STATUS_FIELDS = (
    "streams_opened",
    "bytes_from_host",
    "bytes_to_host",
    "plaintext_resident",
    "plaintext_peak",
    "chunks_evicted",
)
_HEADER = struct.Struct("<BII")  # kind, number, size of the body
_STATUS = struct.Struct(f"<{len(STATUS_FIELDS)}Q")


class Side(Enum):
    """Who sends a message."""

    HOST = "the host"
    ENCLAVE = "the enclave"


class Kind(IntEnum):
    """All messages. The number is that of a stream, or of a request; else 0."""

    START = 1  # the configuration of the enclave, JSON
    READY = 2  # the protections that the process has, see Protection
    OPEN = 3  # a new stream: the port that it came to, or the address that the host is to dial
    BYTES = 4  # of a stream
    CREDIT = 5  # so many more bytes of a stream may be sent
    END = 6  # of one direction of a stream
    RESET = 7  # a stream failed
    QUOTE = 8  # a nonce; the answer is a certificate and a quote
    STATUS = 9  # a request; the answer is the counts of STATUS_FIELDS
    STOP = 10  # the enclave is to end
    ENDED = 11  # the program of the enclave has ended; workers at fault, and a text if it failed
    DATA = 12  # after START: a part of the data of the configuration


# The smallest and the largest body of each message, by its sender.
RULES: dict[tuple[Side, Kind], tuple[int, int]] = {
    (Side.HOST, Kind.START): (2, MAX_DOCUMENT_BYTES),
    (Side.HOST, Kind.DATA): (1, FRAME_BYTES),
    (Side.HOST, Kind.OPEN): (1, MAX_TEXT_BYTES),
    (Side.HOST, Kind.BYTES): (1, FRAME_BYTES),
    (Side.HOST, Kind.CREDIT): (4, 4),
    (Side.HOST, Kind.END): (0, 0),
    (Side.HOST, Kind.RESET): (0, 0),
    (Side.HOST, Kind.QUOTE): (NONCE_BYTES, NONCE_BYTES),
    (Side.HOST, Kind.STATUS): (0, 0),
    (Side.HOST, Kind.STOP): (0, 0),
    (Side.ENCLAVE, Kind.READY): (1, 1),
    (Side.ENCLAVE, Kind.OPEN): (1, MAX_TEXT_BYTES),
    (Side.ENCLAVE, Kind.BYTES): (1, FRAME_BYTES),
    (Side.ENCLAVE, Kind.CREDIT): (4, 4),
    (Side.ENCLAVE, Kind.END): (0, 0),
    (Side.ENCLAVE, Kind.RESET): (0, 0),
    (Side.ENCLAVE, Kind.QUOTE): (1, MAX_DOCUMENT_BYTES),
    (Side.ENCLAVE, Kind.STATUS): (_STATUS.size, _STATUS.size),
    (Side.ENCLAVE, Kind.ENDED): (1, MAX_TEXT_BYTES),
}
WITHOUT_NUMBER = {Kind.START, Kind.DATA, Kind.READY, Kind.STOP, Kind.ENDED}


class Protection(IntFlag):
    """What the system grants the process of an enclave."""

    NOT_DUMPABLE = 1
    NO_CORE_DUMP = 2
    NO_NEW_PRIVILEGES = 4
    OWN_USER_NAMESPACE = 8
    OWN_NETWORK_NAMESPACE = 16
    LOCKED_MEMORY = 32
    ONE_DESCRIPTOR = 64
    SECRET_MEMORY = 128


class Frame(NamedTuple):
    """One message."""

    kind: Kind
    number: int
    body: bytearray


class Link:
    """The unix socket between host and enclave, as one of them sees it."""

    def __init__(self, sock: socket.socket, side: Side) -> None:
        self._sock, self._side = sock, side
        self._peer = Side.ENCLAVE if side is Side.HOST else Side.HOST
        self._sending = threading.Lock()

    def send(self, kind: Kind, number: int = 0, body: bytes | bytearray | memoryview = b"") -> None:
        """Sends a message; PeerClosed if the other side is gone."""
        _check(self._side, kind, number, len(body))
        parts = [memoryview(_HEADER.pack(kind, number, len(body))), memoryview(body)]
        try:
            with self._sending:
                while parts:
                    parts = _after(parts, self._sock.sendmsg(parts))
        except OSError as error:
            raise self._gone() from error

    def receive(self) -> Frame:
        """Returns the next message; FrameRejected if it is none of those that the peer may send."""
        kind, number, size = _HEADER.unpack(self._read(_HEADER.size))
        if kind not in Kind._value2member_map_:
            raise FrameRejected(f"{self._peer.value} sent a message of the unknown kind {kind}")
        _check(self._peer, Kind(kind), number, size)
        return Frame(Kind(kind), number, self._read(size))

    def close(self) -> None:
        """Ends the connection, also for a thread that waits in `receive`."""
        with suppress(OSError):  # if it has ended already
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                count = self._sock.recv_into(view)
            except OSError as error:
                raise self._gone() from error
            if not count:
                raise self._gone()
            view = view[count:]
        return data

    def _gone(self) -> PeerClosed:
        return PeerClosed(f"{self._peer.value} has ended")


def pack_status(counts: dict[str, int]) -> bytes:
    """Returns the body of a STATUS; a count that is not given is 0, and no other is taken."""
    return _STATUS.pack(*(counts.get(name, 0) for name in STATUS_FIELDS))


def unpack_status(body: bytes | bytearray) -> dict[str, int]:
    return dict(zip(STATUS_FIELDS, _STATUS.unpack(body), strict=True))


def pack_end(word: str, workers: Collection[int] = ()) -> bytes:
    """Returns the body of an ENDED: the last word, cut to its size, and the workers at fault."""
    return bytes([sum(1 << worker for worker in workers)]) + word.encode()[: MAX_TEXT_BYTES - 1]


def unpack_end(body: bytes | bytearray) -> tuple[str, tuple[int, ...]]:
    """Returns the last word of an enclave, and the workers that are at fault."""
    workers = tuple(worker for worker in range(8) if body[0] >> worker & 1)
    return body[1:].decode(errors="replace"), workers


def _check(sender: Side, kind: Kind, number: int, size: int) -> None:
    if (sender, kind) not in RULES:
        raise FrameRejected(f"{sender.value} must not send {kind.name}")
    least, most = RULES[sender, kind]
    if not least <= size <= most:
        raise FrameRejected(
            f"{sender.value} sent {kind.name} with {size} bytes", limit=f"{least} to {most}"
        )
    if bool(number) is (kind in WITHOUT_NUMBER):
        raise FrameRejected(f"{sender.value} sent {kind.name} with the number {number}")


def _after(parts: list[memoryview], count: int) -> list[memoryview]:
    """Returns what remains of `parts` after so many bytes."""
    while parts and count >= len(parts[0]):
        count -= len(parts[0])
        parts = parts[1:]
    return [parts[0][count:], *parts[1:]] if parts else []
