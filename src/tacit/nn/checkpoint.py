"""Secret checkpoints: each party keeps its own shares, encrypted under its own key."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..errors import CheckpointRejected, ConfigError
from ..fixedpoint import Numbers, Value
from ..tensor import SecretTensor
from . import optimizers
from .agreement import compare, tell_all, understood
from .record import Record, refreshed, settle, unpacked
from .sharing import put_secret
from .slots import slots
from .vault import Key, put_in_place, read_body, read_header, write_file

ID_BYTES = 16


class HasNumbers(Protocol):
    """A session, as far as it is needed here."""

    @property
    def numbers(self) -> Numbers: ...


@dataclass(frozen=True)
class Checkpoint:
    """What was saved beside the tensors; `id` is the same at all parties, and never used again."""

    id: str
    step: int
    extra: Any


def checkpoint_file(folder: str | Path, rank: int) -> Path:
    """Where party `rank` keeps its part of a checkpoint."""
    return Path(folder) / f"party-{rank}.tacit"


def previous_file(folder: str | Path, rank: int) -> Path:
    """Where the part that was saved there before is kept."""
    return Path(folder) / f"party-{rank}.previous.tacit"


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
    scheduler's state_dict(), an epoch). Files are replaced when all parties have theirs complete on
    the disk; the one before is kept as `party-<rank>.previous.tacit`. 2 or 3 rounds.
    """
    n = session.numbers
    record = _recorded(module, optimizer, extra)
    settle(n, record.tensors)
    table = record.table()
    compare(n, "save", _public(table, record.plain, step))
    drawn = tell_all(n, secrets.token_bytes(ID_BYTES))
    made = Checkpoint(hashlib.sha256(b"".join(drawn)).hexdigest()[: 2 * ID_BYTES], step, extra)
    path = checkpoint_file(folder, n.protocol.rank)
    contents = json.dumps({"tensors": table, "plain": record.plain}).encode()
    temporary, failure = None, ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pieces = chain([struct.pack("<Q", len(contents)), contents], record.body())
        temporary = write_file(path, _header(n, made), pieces, key)
    except OSError as error:
        failure = error.strerror or type(error).__name__
    _all_wrote(n, failure, temporary)
    assert temporary is not None
    put_in_place(temporary, path, previous_file(folder, n.protocol.rank))
    return made


def _recorded(module: nn.Module, optimizer: Optimizer | None, extra: Any) -> Record:
    record = Record({f"model/{slot.path}": slot.tensor for slot in slots(module)})
    if not any(isinstance(tensor, SecretTensor) for tensor in record.tensors.values()):
        raise ConfigError("save: the module is not secret: torch.save is for plain ones")
    if optimizer is not None:
        optimizers.note(record, optimizer)
    try:
        record.plain["extra"] = json.loads(json.dumps(extra))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"save: extra must be what JSON can hold: {error}") from error
    return record


def _public(table: list[dict[str, Any]], plain: dict[str, Any], step: int) -> dict[str, str]:
    """What all parties must save alike."""
    lines = {e["name"]: f"shape {tuple(e['shape'])}, {e['dtype']}" for e in table}
    return lines | {"step": str(step), "settings": json.dumps(plain, sort_keys=True)}


def _header(n: Numbers, made: Checkpoint) -> dict[str, Any]:
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


def _all_wrote(n: Numbers, failure: str, temporary: Path | None) -> None:
    try:
        answers = understood(tell_all(n, failure.encode()), bytes.decode)
        for rank, answer in enumerate(answers):
            if answer:
                raise CheckpointRejected(
                    f"save: party {rank} could not write its file ({answer}); no party's "
                    "checkpoint was replaced",
                    party=rank,
                )
    except BaseException:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise


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
        found, header = _read(n, path, key)
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
        optimizers.restore(n, optimizer, found.plain["optimizer"], fresh)
    return Checkpoint(header["id"], header["step"], found.plain["extra"])


def _read(n: Numbers, path: Path, key: Key) -> tuple[Record, dict[str, Any]]:
    """The record of this party's file, authenticated and complete."""
    try:
        with path.open("rb") as file:
            header, binding = read_header(file)
            _check_header(n, header)
            body = read_body(file, header, binding, key)
    except FileNotFoundError as error:
        raise CheckpointRejected("there is no such file") from error
    except OSError as error:
        raise CheckpointRejected(f"it cannot be read: {error.strerror}") from error
    [size] = struct.unpack_from("<Q", body)
    contents = json.loads(bytes(body[8 : 8 + size]))
    tensors = unpacked(n, contents["tensors"], body[8 + size :])
    return Record(tensors, contents["plain"]), header


def _check_header(n: Numbers, header: dict[str, Any]) -> None:
    here = _header(n, Checkpoint("", 0, None))
    if header.get("party") != here["party"]:
        raise CheckpointRejected(f"it belongs to party {header.get('party')}")
    for name in ("parties", "form", "ring", "fraction_bits"):
        if header.get(name) != here[name]:
            raise CheckpointRejected(
                f"it was saved with {name}={header.get(name)!r}; this session has {here[name]!r}"
            )
    if not isinstance(header.get("id"), str) or not isinstance(header.get("step"), int):
        raise CheckpointRejected("it was changed: its header cannot be read")


def _misfit(module: nn.Module, optimizer: Optimizer | None, found: Record) -> str | None:
    """Why a checkpoint does not fit the module and the optimizer."""
    have = {f"model/{slot.path}": slot.tensor for slot in slots(module)}
    saved = {name: x for name, x in found.tensors.items() if name.startswith("model/")}
    for name in [*have, *saved]:
        a, b = have.get(name), saved.get(name)
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            told = [f"{tuple(x.shape)}, {x.dtype}" if x is not None else "nothing" for x in (b, a)]
            where = name.removeprefix("model/")
            return f"at {where} it holds {told[0]}, and the module has {told[1]}"
    return optimizers.misfit(optimizer, found.plain.get("optimizer"))


def _agree(n: Numbers, refusal: str, identity: str, step: int, path: Path) -> None:
    """Raises CheckpointRejected at every party unless all have the same checkpoint. 1 round."""
    message = json.dumps({"refusal": refusal, "id": identity, "step": step}).encode()
    answers = understood(tell_all(n, message), _answer)
    for rank, answer in enumerate(answers):
        if answer["refusal"]:
            whose = str(path) if rank == n.protocol.rank else f"the file of party {rank}"
            raise CheckpointRejected(f"load: {whose}: {answer['refusal']}", party=rank)
    if len({answer["id"] for answer in answers}) > 1:
        steps = ", ".join(f"party {r}: step {a['step']}" for r, a in enumerate(answers))
        raise CheckpointRejected(
            f"load: the parties' files are of different checkpoints ({steps}): give those of one; "
            "the one before is kept beside it as *.previous.tacit"
        )


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
    for slot in slots(module):
        old, new = slot.tensor, tensors[f"model/{slot.path}"]
        if not isinstance(new, Value):
            slot.put(new)
        elif isinstance(old, SecretTensor):
            old.write(new)
        else:
            put_secret(n, slot, new)
            replaced[id(old)] = slot.tensor
    if optimizer is not None:
        optimizers.follow(optimizer, replaced)
