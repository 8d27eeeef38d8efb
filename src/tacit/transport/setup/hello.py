"""What two parties compare before they start."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ...errors import ConfigError, FrameRejected, HandshakeMismatch

SESSION_BYTES = 16
DIGEST_BYTES = 32
_MAX_TEXT = 64
_BODY = struct.Struct(f"<{SESSION_BYTES}sHHH{DIGEST_BYTES}sB{_MAX_TEXT}s")
HELLO_BYTES = _BODY.size


@dataclass(frozen=True, kw_only=True)
class Hello:
    """Who a party is and what it is about to run. The parties agree on all but the rank."""

    session: bytes
    rank: int
    parties: int
    ring: int
    protocol: str
    digest: bytes

    def __post_init__(self) -> None:
        _require(len(self.session) == SESSION_BYTES, "session", f"{SESSION_BYTES} bytes long")
        _require(len(self.digest) == DIGEST_BYTES, "digest", f"{DIGEST_BYTES} bytes long")
        _require(2 <= self.parties < 1 << 16, "parties", "2 or more")
        _require(0 <= self.rank < self.parties, "rank", f"between 0 and {self.parties - 1}")
        _require(0 < self.ring < 1 << 16, "ring", "a number of bits")
        short = self.protocol.isascii() and 0 < len(self.protocol) <= _MAX_TEXT
        _require(short, "protocol", f"a name of at most {_MAX_TEXT} ASCII characters")

    def encode(self) -> bytes:
        name = self.protocol.encode()
        numbers = self.rank, self.parties, self.ring
        return _BODY.pack(self.session, *numbers, self.digest, len(name), name)

    @classmethod
    def decode(cls, data: bytes) -> Hello:
        """The hello in a stranger's bytes, if they hold one."""
        if len(data) != HELLO_BYTES:
            raise FrameRejected(f"a hello of {len(data)} bytes instead of {HELLO_BYTES}")
        session, rank, parties, ring, digest, length, name = _BODY.unpack(data)
        try:
            protocol = name[:length].decode("ascii")
            return cls(
                session=session,
                rank=rank,
                parties=parties,
                ring=ring,
                protocol=protocol,
                digest=digest,
            )
        except ValueError as error:
            raise FrameRejected("the hello of a stranger is inconsistent") from error


def compare(ours: Hello, theirs: Hello) -> None:
    """Raise the first field in which two parties differ."""
    for field in ("parties", "protocol", "ring", "session", "digest"):
        mine, other = getattr(ours, field), getattr(theirs, field)
        if mine != other:
            raise mismatch(field, mine, other, peer=theirs.rank)


def mismatch(field: str, ours: object, theirs: object, *, peer: int) -> HandshakeMismatch:
    """The error for one field; fields of bytes are named without their content."""
    values = "" if isinstance(ours, bytes) else f": {ours!r} here, {theirs!r} there"
    return HandshakeMismatch(
        f"this party and party {peer} differ in {field}{values}; "
        "start all parties with the same settings",
        field=field,
        party=peer,
    )


def _require(condition: bool, field: str, allowed: str) -> None:
    if not condition:
        raise ConfigError(f"{field} of a hello must be {allowed}")
