"""Files in the place of a stored run, changed on the disk, or authentic and without sense."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch

from tacit.nn.encrypted_file import STORED_RUN, key_in_file, read_chunks, read_header, write_file
from tacit.runtime.preprocessing.store import KEY_FILE, RunHeader, Store
from tacit.transport import Spec
from tacit.transport.channel import Expected
from tacit.transport.public_record import PublicRecord
from tacit.transport.stored import FIRST_CALL, ReadingChannel, WritingChannel
from tacit.transport.wire.frames import Kind, layout

from ..attempts import Case, plant
from ..hostile import distortions
from ..mutate import mutations

NAME = "0123456789abcdef-000000"
HEADER = RunHeader(NAME, 2, {"program": "0123", "party": "party1"})
KEYS = {(1, 2): bytes(range(32)), (0, 1, 2): bytes(range(100, 132))}
WORDS, TEXT = torch.arange(50), torch.arange(40, dtype=torch.uint8)
DEALT = layout((Spec((50,), torch.int64),))


def _dealt(other: PublicRecord) -> bytes:
    """What a dealer sends: a short message, ring elements, and its public record."""
    frames: list[bytes] = []
    channel = WritingChannel(1, (), lambda data: frames.append(bytes(data)))
    channel.send(Kind.BYTES, 3, other.digest, [TEXT])
    channel.send(Kind.TENSORS, FIRST_CALL, other.digest, [WORDS])
    channel.end(other)
    return b"".join(frames)


def _use(store: Store, *, differs: bool = False) -> None:
    """Opens the run in the folder and reads it to its end; differs: as another program would."""
    found = store.inventory()
    for rejected in found.rejected:
        raise rejected
    with store.open(found.ready[0]) as run:
        record = PublicRecord()
        channel = ReadingChannel(2, run.frames, rank=1, record=lambda: record)
        digest = bytes([1]) * len(record.digest) if differs else record.digest
        channel.expect(Expected(Kind.BYTES, 3, None, digest))
        assert channel.recv() is not None
        channel.expect(Expected(Kind.TENSORS, FIRST_CALL, DEALT, digest))
        assert channel.recv() is not None
        for _ in run.frames:
            pass


def _body(path: Path) -> tuple[dict[str, Any], bytes, bytes]:
    """The header, the keys and the frames of a file, in clear."""
    key = key_in_file(path.parent / KEY_FILE, create=False, kind=STORED_RUN)
    with path.open("rb") as file:
        header, binding = read_header(file, STORED_RUN)
        body = b"".join(read_chunks(file, header, binding, key, STORED_RUN))
    [size] = struct.unpack_from("<I", body)
    return header, body[4 : 4 + size], body[4 + size :]


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    store = Store(folder / "stored")
    store.write(HEADER, KEYS, [_dealt(PublicRecord())])
    path = store.folder / f"{NAME}.run"
    raw, (header, keys, frames) = path.read_bytes(), _body(path)
    key = key_in_file(store.folder / KEY_FILE, create=False, kind=STORED_RUN)
    assert isinstance(key, bytes)
    for name, secret in {"the key of the folder": key, "a key of the run": KEYS[1, 2]}.items():
        plant(name, secret)

    def case(what: str, data: bytes, *, hostile: bool = True) -> Case:
        return Case(what, _reads(store, path, data), hostile=hostile, names=str(path))

    def sealed(what: str, head: bytes, rest: bytes, size: int | None = None) -> Case:
        """A file that whoever has the key can write; not every change of it is noticed."""
        body = struct.pack("<I", len(head) if size is None else size) + head + rest
        own = {name: value for name, value in header.items() if name != "kdf"}
        path.unlink(missing_ok=True)
        write_file(path, own, [body], key, STORED_RUN)
        return Case(f"authentic: {what}", _reads(store, path, path.read_bytes()))

    yield Case("valid", _reads(store, path, raw))
    other = Case("of another program", lambda: _use(store, differs=True), hostile=True)
    yield other._replace(names="is not the one that the dealer ran")
    for what, data in mutations(raw, seed=random.randrange(1 << 30), count=2 * count):
        yield case(what, data, hostile=data != raw)
    for place in range(0, len(raw), max(len(raw) // count, 1)):
        changed = bytearray(raw)
        changed[place] ^= 1 << random.randrange(8)
        yield case(f"byte {place}", bytes(changed))
    start = len(STORED_RUN.magic) + 4
    [size] = struct.unpack_from("<I", raw, len(STORED_RUN.magic))
    for what, text in distortions(header, random, count):
        head = STORED_RUN.magic + struct.pack("<I", len(text)) + text
        yield case(f"{what} in the header", head + raw[start + size :])
    for what, text in distortions(json.loads(keys), random, count):
        yield sealed(f"{what} in the keys", text, frames)
    for size in (0, 1, len(keys) - 1, len(keys) + 1, 1 << 31):
        yield sealed(f"keys of {size} bytes", keys, frames, size)
    for what, data in mutations(frames, seed=random.randrange(1 << 30), count=count):
        yield sealed(what, keys, data)
    yield sealed("no frames", keys, b"")


def _reads(store: Store, path: Path, data: bytes) -> Callable[[], None]:
    def read() -> None:
        path.write_bytes(data)
        _use(store)

    return read
