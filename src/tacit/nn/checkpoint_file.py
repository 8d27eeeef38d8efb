"""One party's file of a checkpoint: its path, its header and its contents."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import CheckpointRejected
from ..fixedpoint import Numbers
from ..protocols.forms import Held, givers, held_parts
from ..registry import MOST_PARTIES
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
        if not is_own_form(n, header) and _saved_parts(n, header) is None:
            raise _other_form(n, header)
        body = read_body(file, header, binding, key)
    parts = None if is_own_form(n, header) else _saved_parts(n, header)
    return read_contents(n, body, parts), header


def contents_of(state: SavedState, *, secrets: bool = True) -> Iterator[bytes]:
    """Returns the bytes of the contents of a file, with parts of secrets or without."""
    table = state.table(secrets=secrets)
    contents = json.dumps({"tensors": table, "plain": state.plain}).encode()
    return chain([struct.pack("<Q", len(contents)), contents], state.body(secrets=secrets))


def read_contents(n: Numbers, body: bytearray, parts: Sequence[int] | None) -> SavedState:
    """Returns what the contents of a file hold; a secret has these parts, or those held here."""
    try:
        [size] = struct.unpack_from("<Q", body)
        contents = json.loads(bytes(body[8 : 8 + size]))
        tensors = unpack_tensors(n, contents["tensors"], body[8 + size :], parts)
        plain = contents["plain"]
        if "extra" not in plain:
            raise ValueError("extra is missing")
        optimizer_state.check(plain.get("optimizer"), tensors)
        return SavedState(tensors, plain)
    except _UNREADABLE as error:
        raise CheckpointRejected(UNKNOWN, told=UNKNOWN) from error


def read_identity(n: Numbers, path: Path) -> tuple[str, int]:
    """Returns identity and step of this party's file if it fits the session; not authenticated."""
    with _open(path) as file:
        header, _ = read_header(file)
    _check_header(n, header)
    if not is_own_form(n, header):
        raise _other_form(n, header)
    return header["id"], header["step"]


def is_own_form(n: Numbers, header: Mapping[str, Any]) -> bool:
    """Returns whether a checkpoint's shares are those of this session's protocol and members."""
    p = n.protocol
    return (header.get("form"), header.get("parties")) == (p.form, p.context.mesh.parties)


def saved_parts(n: Numbers, header: Mapping[str, Any]) -> Held | None:
    """Returns who holds which part of a checkpoint of another form; None if it cannot be used.

    The parties of this session must hold every part, and its protocol must hide secrets.
    """
    form, members, p = header.get("form"), header.get("parties"), n.protocol
    if not isinstance(form, str) or type(members) is not int or members > MOST_PARTIES:
        return None
    held = held_parts(form, members)
    hides = held_parts(p.form, p.context.mesh.parties) is not None
    return held if held is not None and hides and givers(held, p.parties) else None


def _saved_parts(n: Numbers, header: Mapping[str, Any]) -> Sequence[int] | None:
    """The parts in this member's file; one that holds none has zeros in it, as part of its rank."""
    held, rank = saved_parts(n, header), n.protocol.rank
    return (held[rank] or (rank,)) if held is not None and rank < len(held) else None


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
    for name in ("ring", "fraction_bits"):
        if header.get(name) != here[name]:
            raise _other_settings(header, here, name)
    identity, step = header.get("id"), header.get("step")
    if not (isinstance(identity, str) and IDENTITY.fullmatch(identity) and type(step) is int):
        raise CheckpointRejected(UNREADABLE, told=CHANGED)


def _other_settings(
    header: Mapping[str, Any], here: Mapping[str, Any], name: str
) -> CheckpointRejected:
    return CheckpointRejected(
        f"it was saved with {name}={_shown(header.get(name))}; this session has {here[name]!r}",
        told="it was saved with other settings than those of this session",
    )


def _other_form(n: Numbers, header: Mapping[str, Any]) -> CheckpointRejected:
    here = header_of(n, Checkpoint("", 0, None))
    name = "form" if header.get("form") != here["form"] else "parties"
    error = _other_settings(header, here, name)
    error.remedy = "load it in a session of the parties that saved it, with or without a dealer"
    return error


def _shown(value: Any) -> str:
    """Returns the value of a header field for an error; only its type unless it is int or str."""
    return quoted(repr(value)) if isinstance(value, int | str) else type(value).__name__
