"""The first messages on a connection: each side says which party of which session it is.

The party that dials speaks first. Its hello ends with the direction in which tensors will flow; the
answer ends with a verdict. Both end with the stripe that the connection will be (0: the one that
all messages use) and with how many stripes this party would have (NOTE [stripes]). Magic, version,
kind and rank are the first eight bytes in every version of the format, so that parties of different
versions can name each other. Settings are not compared here: all parties do that once they are
connected, see `tacit.transport.consensus.agree`.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ...errors import (
    CertificateRejected,
    ConfigError,
    ConnectError,
    ConnectTimeout,
    FrameRejected,
    HandshakeMismatch,
    Party,
    TransportError,
)
from ..wire.frames import HEADER, MAGIC, NO_DIGEST, VERSION, Header, Kind
from ..wire.tcp import TcpStream

SESSION_BYTES = 16
_BODY = struct.Struct(f"<{SESSION_BYTES}sHH")
HELLO_BYTES = _BODY.size
_END = struct.Struct("<BBB")

Judge = Callable[["Hello", "Place", int], "Verdict"]


class Place(NamedTuple):
    """What a connection of a pair is for. outgoing: tensors flow away from here."""

    outgoing: bool
    stripe: int = 0


@dataclass(frozen=True, kw_only=True)
class Hello:
    """Which party of which session one side of a connection is."""

    session: bytes
    rank: int
    parties: int

    def __post_init__(self) -> None:
        _require(len(self.session) == SESSION_BYTES, "session", f"{SESSION_BYTES} bytes long")
        _require(2 <= self.parties < 1 << 16, "parties", "2 or more")
        _require(0 <= self.rank < self.parties, "rank", f"between 0 and {self.parties - 1}")

    def encode(self) -> bytes:
        return _BODY.pack(self.session, self.rank, self.parties)

    @classmethod
    def decode(cls, data: bytes) -> Hello:
        """Returns the hello that a stranger's bytes encode; FrameRejected if they encode none."""
        if len(data) != HELLO_BYTES:
            raise FrameRejected(f"a hello of {len(data)} bytes instead of {HELLO_BYTES}")
        session, rank, parties = _BODY.unpack(data)
        try:
            return cls(session=session, rank=rank, parties=parties)
        except ConfigError as error:
            raise FrameRejected("the hello of a stranger is inconsistent") from error


def _require(condition: bool, field: str, allowed: str) -> None:
    if not condition:
        raise ConfigError(f"{field} of a hello must be {allowed}")


def compare(ours: Hello, theirs: Hello) -> None:
    """Raises HandshakeMismatch, naming the first field in which two hellos differ."""
    for field in ("parties", "session"):
        mine, other = getattr(ours, field), getattr(theirs, field)
        if mine != other:
            raise mismatch(field, mine, other, peer=theirs.rank)


def mismatch(field: str, ours: object, theirs: object, *, peer: int) -> HandshakeMismatch:
    """Returns the error for one field; fields of bytes are named without their content."""
    values = "" if isinstance(ours, bytes) else f": {ours!r} here, {theirs!r} there"
    return HandshakeMismatch(
        "this party and " + Party(peer) + f" differ in {field}{values}",
        remedy="start all parties with the same settings",
        field=field,
        party=peer,
    )


class Verdict(IntEnum):
    """What a party answers to one that dials it."""

    WELCOME = 0
    MISMATCH = 1
    CERTIFICATE = 2
    RANK = 3
    TAKEN = 4
    STRIPE = 5


_REFUSALS: dict[int, str] = {
    Verdict.MISMATCH: "the settings differ",
    Verdict.CERTIFICATE: "the certificate belongs to another party",
    Verdict.RANK: "only parties of higher rank dial it",
    Verdict.TAKEN: "another process is connected under this rank",
    Verdict.STRIPE: "the pair has fewer stripes",
}


def introduce(
    stream: TcpStream, ours: Hello, peer: int, place: Place, *, stripes: int = 1, until: float
) -> int:
    """Say hello to the party that was dialled; returns how many stripes it would have."""
    with suppress(TransportError):  # if it is gone, what it said before is still to be read
        _tell(stream, ours, place.outgoing, place.stripe, stripes)
    theirs, (verdict, stripe, offered) = _listen(stream, until, peer)
    if theirs.rank != peer:
        raise mismatch("rank", peer, theirs.rank, peer=peer)
    compare(ours, theirs)
    if verdict != Verdict.WELCOME:
        raise refused(verdict, peer)
    if stripe != place.stripe:
        raise FrameRejected("the answer is for another stripe", party=peer)
    return offered


def greet(
    stream: TcpStream,
    ours: Hello,
    judge: Judge,
    *,
    stripes: int = 1,
    proved: Sequence[int],
    until: float,
) -> tuple[int, Place, int]:
    """Hear who dials and answer; returns its rank, the connection's place, its stripes.

    `proved` are the ranks whose key the other side holds, where there are keys: who claims another
    is refused, and who differs in the settings is named by the first.
    """
    try:
        theirs, (incoming, stripe, offered) = _listen(stream, until, proved[0] if proved else None)
        pretends = bool(proved) and theirs.rank not in proved
        if not pretends:
            compare(ours, theirs)
    except HandshakeMismatch:
        _tell(stream, ours, Verdict.MISMATCH, 0, stripes)
        raise
    place = Place(not incoming, stripe)
    verdict = Verdict.CERTIFICATE if pretends else judge(theirs, place, offered)
    _tell(stream, ours, verdict, stripe, stripes)
    if verdict != Verdict.WELCOME:
        raise refused(verdict, theirs.rank)
    return theirs.rank, place, offered


def refused(verdict: int, peer: int) -> TransportError:
    """The error for a verdict that is not a welcome."""
    kind = CertificateRejected if verdict == Verdict.CERTIFICATE else ConnectError
    why = _REFUSALS.get(verdict, "no reason given")
    return kind(f"refused: {why}", party=peer)


def _tell(stream: TcpStream, hello: Hello, *end: int) -> None:
    body = hello.encode() + _END.pack(*end)
    fields = (hello.rank, 0, hello.session, 0, len(body), 0, NO_DIGEST)
    head = HEADER.pack(MAGIC, VERSION, Kind.HELLO, *fields)
    stream.write((head + body,))


def _listen(
    stream: TcpStream, until: float, peer: int | None
) -> tuple[Hello, tuple[int, int, int]]:
    header = Header._make(HEADER.unpack(_read(stream, HEADER.size, until)))
    if header.magic != MAGIC:
        raise FrameRejected("the other side does not speak Tacit")
    if header.version != VERSION:
        peer = header.tensors if peer is None else peer
        raise mismatch("version", VERSION, header.version, peer=peer)
    if header.kind != Kind.HELLO or header.size != HELLO_BYTES + _END.size:
        raise FrameRejected("the other side does not start with a hello")
    body = _read(stream, HELLO_BYTES + _END.size, until)
    return Hello.decode(body[:HELLO_BYTES]), _END.unpack(body[HELLO_BYTES:])


def _read(stream: TcpStream, count: int, until: float) -> bytes:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        view = view[stream.read(view, patient=True) :]
        if view and time.monotonic() > until:
            raise ConnectTimeout("connected, but no hello came")
    return bytes(data)
