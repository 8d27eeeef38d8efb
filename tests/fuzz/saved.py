"""A checkpoint of three parties, and party 0 that loads its file, whatever has become of it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

import tacit
from tacit.errors import CheckpointRejected
from tacit.nn import checkpoint, encrypted_file, load, save
from tacit.nn.checkpoint_agreement import Saved as AgreedOn
from tacit.nn.checkpoint_file import checkpoint_file, is_own_form

from .attempts import plant

KEY = b"a key that nobody but party 0 ha"
PASSPHRASE = "the passphrase of party 0"


class Saved(NamedTuple):
    """The session of party 0, and its file: the header, and the body in clear."""

    session: Any
    path: Path
    raw: bytes
    header: dict[str, Any]
    contents: dict[str, Any]
    parts: bytes


def build() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    model.register_buffer("seen", torch.tensor(3))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


@cache
def written(folder: Path) -> Saved:
    """Saved by three parties; party 0 goes on without the others."""
    sessions: list[Any] = []

    def main(session: Any) -> None:
        model, _ = build()
        model = session.share(model, owner=0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        model(session.share(torch.ones(3, 4), owner=1)).sum().backward()
        optimizer.step()
        save(session, folder, model, optimizer, key=KEY, step=5, extra={"epoch": 1})
        if session.rank == 0:
            session.ending.pop_all()  # its keys stay
            sessions.append(session)

    tacit.run(main)
    sessions[0].mesh._thread = None  # this thread drives party 0 from here on
    checkpoint.agree_on_saved = _refuse  # the others' part of a load
    path = checkpoint_file(folder, 0)
    with path.open("rb") as file:
        header, binding = encrypted_file.read_header(file)
        body = bytes(encrypted_file.read_body(file, header, binding, KEY))
    [size] = struct.unpack_from("<Q", body)
    contents, parts = json.loads(body[8 : 8 + size]), body[8 + size :]
    plant("the key", KEY)
    plant("the passphrase", PASSPHRASE)
    for place in range(0, 64, 8):
        plant(f"the share {place}", parts[place : place + 8])
    return Saved(sessions[0], path, path.read_bytes(), header, contents, parts)


def _refuse(n: Any, own: Any, refusal: CheckpointRejected | None, _: Path) -> Any:
    if refusal:
        raise refusal
    held = None if is_own_form(n, {"form": own.form, "parties": own.parties}) else ()
    return AgreedOn(own.id, own.step, held, source=0, lacking=False)


def load_it(saved: Saved, data: bytes, key: encrypted_file.Key = KEY) -> None:
    saved.path.write_bytes(data)
    model, optimizer = build()
    load(saved.session, saved.path.parent, model, optimizer, key=key)


def sealed(saved: Saved, body: Iterable[bytes], header: Any = None) -> bytes:
    """A file with this body, as whoever has the key can write it."""
    path = saved.path.with_name("sealed")
    kept = {name: x for name, x in saved.header.items() if name != "kdf"}
    encrypted_file.write_file(path, kept if header is None else header, body, KEY)
    data = path.read_bytes()
    path.unlink()
    return data


def framed(header: bytes, chunks: bytes) -> bytes:
    return encrypted_file.MAGIC + struct.pack("<I", len(header)) + header + chunks


def chunks_of(saved: Saved) -> bytes:
    """What follows the header in the file."""
    start = len(encrypted_file.MAGIC) + 4
    [size] = struct.unpack_from("<I", saved.raw, len(encrypted_file.MAGIC))
    return saved.raw[start + size :]
