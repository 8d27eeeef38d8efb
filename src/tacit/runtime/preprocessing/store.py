"""One party's stored runs: a folder with a file for each run, a key, and a ledger of used runs."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from ...crypto import Group, make_private_folder, wipe
from ...errors import PreprocessingRejected, TransportError
from ...nn.encrypted_file import (
    STORED_RUN,
    key_in_file,
    put_in_place,
    read_chunks,
    read_header,
    write_file,
)
from .ledger import Ledger, flush_folder

KEY_FILE = "preprocessed.key"
SUFFIX = ".run"
PIECE = 1 << 20
CHANGED = "it was changed since it was made"
UNKNOWN = "its contents cannot be read by this version"


@dataclass(frozen=True)
class RunHeader:
    """What is known of a stored run without its key; authenticated when the run is opened.

    about: program, settings, parties and this party, by name. dealer: the rank of the dealer.
    """

    id: str
    dealer: int
    about: Mapping[str, str]

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> RunHeader:
        """Returns the header in the fields of a file."""
        about, dealer = fields.get("about"), fields.get("dealer")
        if not isinstance(about, dict) or type(dealer) is not int:
            raise PreprocessingRejected(CHANGED, told=CHANGED)
        return cls(str(fields.get("id")), dealer, {str(k): str(v) for k, v in about.items()})


@dataclass(frozen=True)
class StoredFile:
    """A run that is there, and the bytes that it takes."""

    header: RunHeader
    path: Path
    size: int


@dataclass(frozen=True)
class Inventory:
    """The runs of a folder: ready ones in the order of their use, used ones, unreadable ones."""

    ready: tuple[StoredFile, ...]
    used: tuple[Path, ...]
    rejected: tuple[PreprocessingRejected, ...]

    def fitting(self, about: Mapping[str, str]) -> tuple[list[StoredFile], Counter[str]]:
        """Returns the ready runs for this program, and how many differ in what."""
        fitting, others = [], Counter[str]()
        for file in self.ready:
            if file.header.about == about:
                fitting.append(file)
            else:
                others[first_difference(file.header.about, about)] += 1
        return fitting, others


def first_difference(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Returns the name of the first item that differs."""
    return next(name for name in {**other, **one} if one.get(name) != other.get(name))


class Store:
    """The stored runs in a folder that only this party uses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger(folder)

    def inventory(self) -> Inventory:
        """Returns what is there. Nothing is opened or changed."""
        ready, used, rejected = list[StoredFile](), list[Path](), list[PreprocessingRejected]()
        paths = self.folder.glob(f"*{SUFFIX}") if self.folder.is_dir() else ()
        for path in sorted(paths):
            if self.ledger.is_used(path.stem):
                used.append(path)
                continue
            try:
                with _reading(path) as file:
                    header = RunHeader.read(read_header(file, STORED_RUN)[0])
                    if header.id != path.stem:
                        raise PreprocessingRejected("it was renamed", told=CHANGED)
                ready.append(StoredFile(header, path, path.stat().st_size))
            except PreprocessingRejected as error:
                rejected.append(error.about(str(path)))
        return Inventory(tuple(ready), tuple(used), tuple(rejected))

    def write(
        self, header: RunHeader, keys: Mapping[Group, bytes], frames: Iterable[bytes]
    ) -> None:
        """Writes a run; it is complete, and on the disk, when it has its name."""
        make_private_folder(self.folder)
        key = key_in_file(self.folder / KEY_FILE, create=True, kind=STORED_RUN)
        path = self.folder / f"{header.id}{SUFFIX}"
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        fields = {"id": header.id, "dealer": header.dealer, "about": dict(header.about)}
        with _written(path):
            write_file(draft, fields, _body(keys, frames), key, STORED_RUN)
            put_in_place(draft, path)

    def open(self, file: StoredFile) -> StoredRun:
        """Returns a run that this party's key opens. It is not used yet."""
        with _errors_about(file.path):
            key = key_in_file(self.folder / KEY_FILE, create=False, kind=STORED_RUN)
            stream = file.path.open("rb")
            try:
                fcntl.flock(stream, fcntl.LOCK_SH)  # until it is closed, nobody overwrites it
                fields, binding = read_header(stream, STORED_RUN)
                chunks = read_chunks(stream, fields, binding, key, STORED_RUN)
                first = next(chunks)  # authenticates the header
                if RunHeader.read(fields) != file.header:
                    raise PreprocessingRejected(CHANGED, told=CHANGED)
                keys, rest = _head(first)
            except BaseException:
                stream.close()
                raise
        return StoredRun(self, file, keys, stream, _frames(file.path, rest, chunks))

    def wipe(self) -> int:
        """Overwrites and deletes all runs, and what a crash has left. Returns how many there were.

        The ledger stays.
        """
        paths = [*self.folder.glob(f"*{SUFFIX}"), *self.folder.glob(f".*{SUFFIX}.*")]
        for path in paths:
            overwrite(path)
        return len(paths)


class StoredRun:
    """An opened run: the keys that this party shares with the dealer, and the dealer's frames.

    As a context manager it overwrites and deletes the file at the end, if the run was used.
    """

    def __init__(
        self,
        store: Store,
        file: StoredFile,
        keys: Mapping[Group, bytes],
        stream: BinaryIO,
        frames: Iterator[bytes],
    ) -> None:
        self.header, self.keys, self.frames = file.header, keys, frames
        self._store, self._path, self._stream = store, file.path, stream
        self._is_used = False

    def use(self) -> None:
        """Marks the run as used. Nothing that depends on it may be sent before this returns."""
        with _written(self._path):
            self._store.ledger.add(self.header.id)
        self._is_used = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stream.close()
        for secret in self.keys.values():
            wipe(secret)
        if self._is_used:
            overwrite(self._path)


def overwrite(path: Path) -> None:
    """Overwrites a file with zeros and deletes it, unless a session is reading it.

    A disk may still keep copies of its own.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except FileNotFoundError:  # another process was faster
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = os.fstat(descriptor).st_size
        for start in range(0, size, PIECE):
            os.write(descriptor, bytes(min(PIECE, size - start)))
        os.fsync(descriptor)
        path.unlink(missing_ok=True)
        flush_folder(path.parent)
    except BlockingIOError:  # a session reads it
        return
    finally:
        os.close(descriptor)


def _body(keys: Mapping[Group, bytes], frames: Iterable[bytes]) -> Iterator[bytes]:
    named = {",".join(map(str, group)): secret.hex() for group, secret in keys.items()}
    head = json.dumps(named).encode()
    yield struct.pack("<I", len(head)) + head
    yield from frames


def _head(chunk: bytes) -> tuple[dict[Group, bytes], bytes]:
    """Returns the keys at the start of a body, and what follows them."""
    try:
        [size] = struct.unpack_from("<I", chunk)
        named = json.loads(chunk[4 : 4 + size])
        keys = {tuple(map(int, g.split(","))): bytes.fromhex(secret) for g, secret in named.items()}
    except (struct.error, ValueError, TypeError, AttributeError, RecursionError):
        raise PreprocessingRejected(UNKNOWN, told=UNKNOWN) from None  # causes would show keys
    return keys, chunk[4 + size :]


def _frames(path: Path, rest: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield rest
    with _errors_about(path):
        yield from chunks


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise PreprocessingRejected(
            f"it cannot be read: {error.strerror}", told="its stored run cannot be read"
        ) from error


@contextmanager
def _errors_about(path: Path) -> Iterator[None]:
    """Names the file in errors that leave the block."""
    try:
        yield
    except PreprocessingRejected as error:
        raise error.about(str(path)) from error.__cause__
    except OSError as error:
        raise PreprocessingRejected(
            f"it cannot be read: {error.strerror}",
            subject=str(path),
            told="its stored run cannot be read",
        ) from error


@contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, TransportError):
            raise
        raise PreprocessingRejected(
            f"it cannot be written: {error.strerror}",
            subject=str(path),
            remedy="make room, or choose another folder",
            told="its stored runs cannot be written",
        ) from error
