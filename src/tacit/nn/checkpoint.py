"""Secret checkpoints: each party keeps its own shares, encrypted under its own key."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from collections.abc import Callable
from contextlib import suppress
from errno import EEXIST
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..errors import CheckpointRejected, ConfigError, Party
from ..fixedpoint import Numbers, Value
from ..tensor import SecretTensor
from ..transport.consensus import agree, all_gather, decode_all, quoted, synchronized
from . import optimizer_state
from .checkpoint_contents import Record, refreshed, settle
from .checkpoint_file import Checkpoint, checkpoint_file, header_of, read_part
from .encrypted_file import Key, put_in_place, write_file
from .module_tensors import module_tensors
from .sharing import replace_by_secret

ID_BYTES = 16


class HasNumbers(Protocol):
    """A session, as far as it is needed here."""

    @property
    def numbers(self) -> Numbers: ...


# Saving -----------------------------------------------------------------------------------------


def save(
    session: HasNumbers,
    folder: str | Path,
    module: nn.Module,
    optimizer: Optimizer | None = None,
    *,
    key: Key,
    step: int = 0,
    extra: Any = None,
) -> Checkpoint:
    """Saves a secret module, and what an optimizer keeps, at every party at once.

    Each party writes its shares to `party-<rank>.tacit` in its folder, encrypted and authenticated
    with its own `key`: 32 bytes, or a passphrase. `extra` is public and whatever JSON can hold (a
    scheduler's state_dict(), an epoch). The files get their names when all parties have theirs
    complete on the disk; one that is there already is never replaced: every checkpoint has a folder
    of its own. 4 or 5 rounds. If a party cannot write, CheckpointRejected says so at all.
    """
    n = session.numbers
    record = recorded(module, optimizer, extra)
    settle(n, record.tensors)
    table = record.table()
    agree(n.protocol.context.mesh, _public(table, record.plain, step), topic="save")
    drawn = all_gather(n.protocol.context.mesh, secrets.token_bytes(ID_BYTES))
    made = Checkpoint(hashlib.sha256(b"".join(drawn)).hexdigest()[: 2 * ID_BYTES], step, extra)
    path = checkpoint_file(folder, n.protocol.rank)
    temporary = path.with_name(f".{path.name}.{made.id}")
    contents = json.dumps({"tensors": table, "plain": record.plain}).encode()

    def write() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise FileExistsError(EEXIST, "it is there already: save to a folder of its own")
        pieces = chain([struct.pack("<Q", len(contents)), contents], record.body())
        write_file(temporary, header_of(n, made), pieces, key)

    try:
        _at_all(n, "write", path, write)
        _at_all(n, "rename", path, lambda: put_in_place(temporary, path))
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return made


def _at_all(n: Numbers, what: str, path: Path, action: Callable[[], None]) -> None:
    """Does something with this party's file; CheckpointRejected at every party if one cannot."""
    failure = ""
    try:
        action()
    except OSError as cannot:
        failure = cannot.strerror or type(cannot).__name__
    mesh = n.protocol.context.mesh
    for rank, answer in enumerate(decode_all(all_gather(mesh, failure.encode()), bytes.decode)):
        if answer:
            whose = str(path) if rank == mesh.rank else "its file"
            error = CheckpointRejected(
                Party(rank)
                + (
                    f" could not {what} {whose} ({quoted(answer)}): this checkpoint is "
                    "not complete; those before are as they were"
                ),
                subject="save",
                party=rank,
            )
            raise synchronized(mesh, error)


def recorded(module: nn.Module, optimizer: Optimizer | None, extra: Any) -> Record:
    """What would be saved; ConfigError if it cannot be."""
    record = Record({f"model/{entry.path}": entry.tensor for entry in module_tensors(module)})
    if not any(isinstance(tensor, SecretTensor) for tensor in record.tensors.values()):
        raise ConfigError(
            "the module is not secret", subject="save", remedy="torch.save is for plain ones"
        )
    if optimizer is not None:
        optimizer_state.note(record, optimizer)
    try:
        record.plain["extra"] = json.loads(json.dumps(extra))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"extra must be what JSON can hold: {error}", subject="save") from error
    return record


def _public(table: list[dict[str, Any]], plain: dict[str, Any], step: int) -> dict[str, str]:
    """What all parties must save alike."""
    lines = {e["name"]: f"shape {tuple(e['shape'])}, {e['dtype']}" for e in table}
    return lines | {"step": str(step), "settings": json.dumps(plain, sort_keys=True)}


# Loading ----------------------------------------------------------------------------------------


def load(
    session: HasNumbers,
    folder: str | Path,
    module: nn.Module,
    optimizer: Optimizer | None = None,
    *,
    key: Key,
) -> Checkpoint:
    """Loads what `save` has saved, in a session of any protocol with the same form of share.

    The module has the same architecture, with any weights (or on the meta device); its parameters
    and floating buffers become secret in place, and the optimizer, made over them, goes on with the
    new ones. Shares are refreshed: together with those of the file they tell nothing. 1 round.
    A file that is missing, another party's, cut short, changed, or not of the same checkpoint as
    the others' is a CheckpointRejected at every party, and then nothing is loaded.
    """
    n = session.numbers
    path = checkpoint_file(folder, n.protocol.rank)
    found, refusal, header = None, "", dict[str, Any](id="", step=0)
    try:
        found, header = read_part(n, path, key)
        refusal = _misfit(module, optimizer, found) or ""
    except CheckpointRejected as error:
        refusal = str(error)
    _agree(n, refusal, header["id"], header["step"], path)
    assert found is not None
    fresh = {
        name: refreshed(n, x) if isinstance(x, Value) else x for name, x in found.tensors.items()
    }
    _put(n, module, optimizer, fresh)
    if optimizer is not None:
        optimizer_state.restore(n, optimizer, found.plain["optimizer"], fresh)
    return Checkpoint(header["id"], header["step"], found.plain["extra"])


def _misfit(module: nn.Module, optimizer: Optimizer | None, found: Record) -> str | None:
    """Why a checkpoint does not fit the module and the optimizer."""
    have = {f"model/{entry.path}": entry.tensor for entry in module_tensors(module)}
    saved = {name: x for name, x in found.tensors.items() if name.startswith("model/")}
    for name in [*have, *saved]:
        a, b = have.get(name), saved.get(name)
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            told = [f"{tuple(x.shape)}, {x.dtype}" if x is not None else "nothing" for x in (b, a)]
            where = name.removeprefix("model/")
            return f"at {where} it holds {told[0]}, and the module has {told[1]}"
    return optimizer_state.misfit(optimizer, found.plain.get("optimizer"))


def _agree(n: Numbers, refusal: str, identity: str, step: int, path: Path) -> None:
    """Raises CheckpointRejected at every party unless all have the same checkpoint.

    One round; one more if they have not.
    """
    mesh = n.protocol.context.mesh
    message = json.dumps({"refusal": refusal, "id": identity, "step": step}).encode()
    answers = decode_all(all_gather(mesh, message), _answer)
    for rank, answer in enumerate(answers):
        if answer["refusal"]:
            whose = str(path) if rank == mesh.rank else f"the file of party {rank}"
            refused = f"load: {whose}: {quoted(answer['refusal'])}"
            raise synchronized(mesh, CheckpointRejected(refused, party=rank))
    if len({answer["id"] for answer in answers}) > 1:
        steps = ", ".join(f"party {r}: step {a['step']}" for r, a in enumerate(answers))
        differ = (
            f"load: the parties' files are of different checkpoints ({steps}): give those of one"
        )
        raise synchronized(mesh, CheckpointRejected(differ))


def _answer(message: bytes) -> dict[str, Any]:
    """What a party says of its file: {"refusal": text, "id": text, "step": number}."""
    found = json.loads(message)
    for name, kind in (("refusal", str), ("id", str), ("step", int)):
        if not isinstance(found[name], kind):
            raise TypeError(name)
    return dict(found)


@torch.no_grad()
def _put(
    n: Numbers, module: nn.Module, optimizer: Optimizer | None, tensors: dict[str, Any]
) -> None:
    """Overwrites what is secret already; puts secrets in the place of what is not."""
    replaced: dict[int, Tensor] = {}
    for entry in module_tensors(module):
        old, new = entry.tensor, tensors[f"model/{entry.path}"]
        if not isinstance(new, Value):
            entry.replace(new)
        elif isinstance(old, SecretTensor):
            old.write(new)
        else:
            replace_by_secret(n, entry, new)
            replaced[id(old)] = entry.tensor
    if optimizer is not None:
        optimizer_state.follow(optimizer, replaced)
