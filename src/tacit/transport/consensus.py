"""What the parties must have alike before anything is shared, and what one tells all."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import torch
from torch import Tensor

from ..errors import ConfigError, Error, ProtocolDesync, ProtocolError, TransportError
from .mesh import Mesh
from .wire.frames import Spec

MOST_BYTES = 1 << 21  # of a description, unpacked; to read it may take twenty times as much
MOST_QUOTED = 300  # characters of what a peer said

# What reading a peer's message may raise, whatever stands in it.
_UNREADABLE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    *(RecursionError, zlib.error),
)

T = TypeVar("T")
E = TypeVar("E", bound=Error)


def tell_all(mesh: Mesh, message: bytes) -> list[bytes]:
    """Everybody's message, by rank. One round of short messages."""
    peers = [rank for rank in range(mesh.parties) if rank != mesh.rank]
    received = mesh.exchange_bytes(dict.fromkeys(peers, message), peers)
    return [received[rank] if rank != mesh.rank else message for rank in range(mesh.parties)]


def known_to_all(mesh: Mesh, error: E) -> E:
    """An error that all parties raise alike, once each of them knows of it. One round.

    Whoever raised it before could end the run while another still waits for the last message that
    it is about, and the other would learn no more than that the run has ended.
    """
    # One that was quicker ends the run, and by then all were here; one that was told other things
    # goes on with something else: this error says more of it than that.
    with suppress(TransportError, ProtocolError):
        tell_all(mesh, b"")
    return error


def understood(messages: Sequence[bytes], read: Callable[[bytes], T]) -> list[T]:
    """What everybody's message says; one that says nothing is a ProtocolDesync that names it."""
    found = []
    for rank, message in enumerate(messages):
        try:
            found.append(read(message))
        except _UNREADABLE as error:
            raise ProtocolDesync(
                f"party {rank} sent {len(message)} bytes that cannot be read here: the parties "
                "must run the same program",
                party=rank,
            ) from error
    return found


def quoted(text: str) -> str:
    """What a peer said, for a message here: in printable characters, and not too many of them."""
    kept = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:MOST_QUOTED])
    return kept if len(text) <= MOST_QUOTED else f"{kept} [cut]"


def compare(mesh: Mesh, what: str, lines: Mapping[str, str]) -> None:
    """Raises ConfigError at every party, naming the first difference, unless all have the same.

    One round; two more to find the difference and to let all know it.
    """
    text = json.dumps(list(lines.items())).encode()
    digests = tell_all(mesh, hashlib.sha256(text).digest())
    if len(set(digests)) == 1:
        return
    tables = understood(tell_all(mesh, zlib.compress(text)), _unpacked)
    for rank, theirs in enumerate(tables):
        difference = _difference(tables[0], theirs)
        if difference is not None:
            path, first, other = map(quoted, difference)
            error = ConfigError(
                f"{what}: the parties differ at {path}: party 0 has {first}, party {rank} has "
                f"{other}; every party builds the same, with any values"
            )
            raise known_to_all(mesh, error)
    odd = next(rank for rank, digest in enumerate(digests) if digest != digests[mesh.rank])
    raise ProtocolDesync(
        f"{what}: party {odd} says that it has something else than this party, and then the same: "
        "the parties must run the same program",
        party=odd,
    )


def _unpacked(packed: bytes) -> dict[str, str]:
    lines = json.loads(zlib.decompressobj().decompress(packed, MOST_BYTES))
    return {str(path): str(text) for path, text in lines}


def _difference(a: dict[str, str], b: dict[str, str]) -> tuple[str, str, str] | None:
    for path in [*a, *b]:
        if a.get(path) != b.get(path):
            return path, a.get(path, "nothing there"), b.get(path, "nothing there")
    for (path, text), (other, _) in zip(a.items(), b.items(), strict=True):
        if path != other:
            return path, f"{text} in this place", f"{other} in this place"
    return None


def from_owner(mesh: Mesh, tensors: Sequence[Tensor], owner: int) -> list[Tensor]:
    """The owner's public integers at every party, which hold tensors alike. One message."""
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
