"""Agreement between parties: all of them find that they hold the same, or raise the same error.

`agree` compares named, public items: the settings of a session, a job, the structure of a module,
the options of a training. Everything else here is what such a comparison is made of: every party's
message at all parties (`all_gather`), decoded without trust (`decode_all`), and an error that no
party raises before every party has it (`synchronized`).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from ..errors import (
    ConfigError,
    Error,
    HandshakeMismatch,
    Party,
    PreprocessingRejected,
    ProtocolDesync,
    ProtocolError,
    RangeError,
    TransportError,
    joined,
)
from .mesh import Mesh
from .wire.frames import Spec

__all__ = [
    "agree",
    "all_gather",
    "broadcast_from",
    "decode_all",
    "difference",
    "quoted",
    "synchronized",
]

MAX_TABLE_BYTES = 1 << 21  # of all items, decompressed; parsing them takes up to 20 times as much
MAX_QUOTED = 300  # characters of a peer's text in an error

# Everything that a decoder may raise, whatever bytes a peer sends.
_MALFORMED = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    *(RecursionError, zlib.error),
)

T = TypeVar("T")
E = TypeVar("E", bound=Error)
Items = dict[str, str]


def agree(
    mesh: Mesh,
    items: Mapping[str, str],
    *,
    topic: str | None = None,
    error: type[ConfigError] | type[HandshakeMismatch] = ConfigError,
    remedy: str = "every party builds the same, with any values",
) -> None:
    """Returns if all parties hold the same items in the same order; else raises at every party.

    The error names the first item that differs, two of its values and the parties that hold them:
    one of the majority and the first that deviates from it. The items are public. One round of
    32 bytes; two more rounds if there is a difference.
    """
    text = json.dumps(list(items.items())).encode()
    digests = all_gather(mesh, hashlib.sha256(text).digest())
    if len(set(digests)) == 1:
        return
    tables = decode_all(all_gather(mesh, zlib.compress(text)), _decompress)
    found = _first_difference(tables)
    if found is None:
        deviating = next(r for r, digest in enumerate(digests) if digest != digests[mesh.rank])
        raise ProtocolDesync(
            Party(deviating) + " sent the digest of other items and then the same items",
            remedy="the parties must run the same program",
            subject=topic,
            party=deviating,
        )
    raise synchronized(mesh, found.error(error, topic, remedy))


def difference(tables: Sequence[Mapping[str, str]], *, topic: str, remedy: str) -> Error | None:
    """Returns the error about the first item in which the tables of the parties differ, or None."""
    found = _first_difference(tables)
    return None if found is None else found.error(ConfigError, topic, remedy)


class _Difference(NamedTuple):
    """An item, its value at each party (None where it is missing), and who deviates."""

    item: str
    values: list[str | None]

    @property
    def usual(self) -> str | None:
        """The value that most parties have, or else the first party's."""
        return Counter(self.values).most_common(1)[0][0]

    @property
    def deviating(self) -> int:
        return next(rank for rank, value in enumerate(self.values) if value != self.usual)

    def error(self, kind: type[Error], topic: str | None, remedy: str) -> Error:
        ranks = sorted((self.values.index(self.usual), self.deviating))
        held = joined(" and ", (f"{_show(self.values[rank])} at " + Party(rank) for rank in ranks))
        item = quoted(self.item)
        reason = f"the parties differ in {item}: " + held
        if kind is HandshakeMismatch:
            return HandshakeMismatch(reason, field=item, party=self.deviating, remedy=remedy)
        return kind(reason, subject=topic, remedy=remedy)


def _first_difference(tables: Sequence[Mapping[str, str]]) -> _Difference | None:
    for item in dict.fromkeys(name for table in tables for name in table):
        values = [table.get(item) for table in tables]
        if len(set(values)) > 1:
            return _Difference(item, values)
    for position, names in enumerate(zip(*tables, strict=True)):
        if len(set(names)) > 1:
            return _Difference(f"the order of items at position {position}", list(names))
    return None


def _show(value: str | None) -> str:
    return "nothing" if value is None else f"'{quoted(value)}'"


def _decompress(packed: bytes) -> Items:
    lines = json.loads(zlib.decompressobj().decompress(packed, MAX_TABLE_BYTES))
    return {str(item): str(value) for item, value in lines}


def all_gather(mesh: Mesh, message: bytes) -> list[bytes]:
    """Returns every party's message, by rank. One round of short messages."""
    peers = [rank for rank in range(mesh.parties) if rank != mesh.rank]
    received = mesh.exchange_bytes(dict.fromkeys(peers, message), peers)
    return [received[rank] if rank != mesh.rank else message for rank in range(mesh.parties)]


def decode_all(messages: Sequence[bytes], decode: Callable[[bytes], T]) -> list[T]:
    """Returns all messages decoded; ProtocolDesync names a party whose bytes are malformed."""
    decoded = []
    for rank, message in enumerate(messages):
        try:
            decoded.append(decode(message))
        except _MALFORMED as error:
            raise ProtocolDesync(
                Party(rank) + f" sent {len(message)} bytes that cannot be read here",
                remedy="the parties must run the same program",
                party=rank,
            ) from error
    return decoded


def synchronized(mesh: Mesh, error: E) -> E:
    """Returns an error that all parties are about to raise, once each of them has it. One round.

    Without this round the first party to raise would end the run while another still waits for the
    message that the error is about, and the other would learn only that the run has ended.
    """
    # A faster party may have ended the run already; it did so after all parties came here. A party
    # that was told something else, or a dealer in a stored run, sends another message: this error
    # says more than that one would.
    with suppress(TransportError, ProtocolError, RangeError, PreprocessingRejected):
        all_gather(mesh, b"")
    return error


def quoted(text: str) -> str:
    """Returns a peer's text for use in an error: printable and at most `MAX_QUOTED` characters."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:MAX_QUOTED])
    return shown if len(text) <= MAX_QUOTED else f"{shown} [cut]"


def broadcast_from(mesh: Mesh, tensors: Sequence[Tensor], owner: int) -> list[Tensor]:
    """Returns the owner's public integer tensors; all parties give the same shapes. One message."""
    if not tensors or mesh.parties == 1:
        return list(tensors)
    if mesh.rank == owner:
        flat = torch.cat([tensor.flatten().to(torch.int64) for tensor in tensors])
        peers = [rank for rank in range(mesh.parties) if rank != owner]
        mesh.exchange({peer: [flat] for peer in peers}, {})
    else:
        count = sum(tensor.numel() for tensor in tensors)
        [flat] = mesh.exchange({}, {owner: [Spec((count,), torch.int64)]})[owner]
        flat = flat.cpu()
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [
        part.reshape(tensor.shape).to(tensor.dtype, copy=True)
        for part, tensor in zip(parts, tensors, strict=True)
    ]
