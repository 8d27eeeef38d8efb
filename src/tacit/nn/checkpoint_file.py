"""One party's file of a checkpoint: its path, its header and its contents."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import CheckpointRejected
from ..fixedpoint import Numbers
from ..transport.consensus import quoted
from . import optimizer_state
from .checkpoint_contents import SavedState, unpack_tensors
from .encrypted_file import CHANGED, UNREADABLE, Key, read_body, read_header

# What reading damaged contents may raise; torch raises RuntimeError, deep JSON RecursionError.
_UNREADABLE = (
    *(struct.error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    RuntimeError,
)
IDENTITY = re.compile("[0-9a-f]{32}")
MISSING = "there is no such file"
UNKNOWN = "its contents cannot be read by this version"


@dataclass(frozen=True)
class Checkpoint:
    """What was saved besides tensors. `id` is the same at all parties, and unique."""

    id: str
    step: int
    extra: Any


def checkpoint_file(folder: str | Path, rank: int) -> Path:
    """Returns the path of party `rank`'s part of a checkpoint."""
    return Path(folder) / f"party-{rank}.tacit"


def header_of(n: Numbers, made: Checkpoint) -> dict[str, Any]:
    """Returns the header of a party's file, which is not encrypted."""
    protocol = n.protocol
    return {
        "id": made.id,
        "step": made.step,
        "party": protocol.rank,
        "parties": protocol.context.mesh.parties,
        "form": protocol.form,
        "ring": n.ring.bits,
        "fraction_bits": n.fraction_bits,
    }


def read_part(n: Numbers, path: Path, key: Key) -> tuple[SavedState, dict[str, Any]]:
    """Returns the contents and the header of this party's file, authenticated and complete."""
    with _open(path) as file:
        header, binding = read_header(file)
        _check_header(n, header)
        body = read_body(file, header, binding, key)
    try:
        [size] = struct.unpack_from("<Q", body)
        contents = json.loads(bytes(body[8 : 8 + size]))
        tensors, plain = unpack_tensors(n, contents["tensors"], body[8 + size :]), contents["plain"]
        if "extra" not in plain:
            raise ValueError("extra is missing")
        optimizer_state.check(plain.get("optimizer"), tensors)
        return SavedState(tensors, plain), header
    except _UNREADABLE as error:
        raise CheckpointRejected(UNKNOWN, told=UNKNOWN) from error


def read_identity(n: Numbers, path: Path) -> tuple[str, int]:
    """Returns identity and step of this party's file if it fits the session; not authenticated."""
    with _open(path) as file:
        header, _ = read_header(file)
    _check_header(n, header)
    return header["id"], header["step"]


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise CheckpointRejected(MISSING, told=MISSING) from error
    except OSError as error:
        raise CheckpointRejected(
            f"it cannot be read: {error.strerror}", told="it cannot be read"
        ) from error


def _check_header(n: Numbers, header: dict[str, Any]) -> None:
    here = header_of(n, Checkpoint("", 0, None))
    if header.get("party") != here["party"]:
        raise CheckpointRejected(
            f"it belongs to party {_shown(header.get('party'))}", told="it belongs to another party"
        )
    for name in ("parties", "form", "ring", "fraction_bits"):
        if header.get(name) != here[name]:
            raise CheckpointRejected(
                f"it was saved with {name}={_shown(header.get(name))}; this session has "
                f"{here[name]!r}",
                told="it was saved with other settings than those of this session",
            )
    identity, step = header.get("id"), header.get("step")
    if not (isinstance(identity, str) and IDENTITY.fullmatch(identity) and type(step) is int):
        raise CheckpointRejected(UNREADABLE, told=CHANGED)


def _shown(value: Any) -> str:
    """Returns the value of a header field for an error; only its type unless it is int or str."""
    return quoted(repr(value)) if isinstance(value, int | str) else type(value).__name__
