"""Secret checkpoints: each party saves its own shares, encrypted under its own key."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from errno import EEXIST
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..crypto import make_private_folder
from ..errors import CheckpointRejected, ConfigError, Party, told_to_peers
from ..fixedpoint import Numbers, Value
from ..protocols.blind import refuse_saving
from ..tensor import SecretTensor
from ..transport.consensus import agree, all_gather, decode_all, quoted, synchronized
from . import optimizer_state
from .checkpoint_agreement import Answer, agree_on_saved, public_contents
from .checkpoint_contents import SavedState, convert, refresh, settle
from .checkpoint_file import Checkpoint, checkpoint_file, contents_of, header_of, read_part
from .encrypted_file import Key, put_in_place, write_file
from .module_tensors import module_tensors
from .sharing import replace_by_secret

ID_BYTES = 16


class HasNumbers(Protocol):
    """The part of a session that is used here."""

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
    refuse_saving(n.protocol.context)
    key = n.protocol.file_key(key)
    state = state_to_save(module, optimizer, extra)
    settle(n, state.tensors)
    n.protocol.verify()
    agree(n.protocol.context.mesh, _public(state.table(), state.plain, step), topic="save")
    drawn = all_gather(n.protocol.context.mesh, secrets.token_bytes(ID_BYTES))
    made = Checkpoint(hashlib.sha256(b"".join(drawn)).hexdigest()[: 2 * ID_BYTES], step, extra)
    path = checkpoint_file(folder, n.protocol.rank)
    temporary = path.with_name(f".{path.name}.{made.id}")

    def write() -> None:
        make_private_folder(path.parent)
        if path.exists():
            raise FileExistsError(EEXIST, "it is there already: save to a folder of its own")
        write_file(temporary, header_of(n, made), contents_of(state), key)

    try:
        _at_all(n, "write", path, write)
        _at_all(n, "rename", path, lambda: put_in_place(temporary, path))
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return made


def _at_all(n: Numbers, what: str, path: Path, action: Callable[[], None]) -> None:
    """Runs `action` on this party's file; CheckpointRejected at every party if one fails."""
    failure = None
    try:
        action()
    except OSError as cannot:
        failure = cannot
    mesh = n.protocol.context.mesh
    told = told_to_peers(failure).encode() if failure else b""
    for rank, answer in enumerate(decode_all(all_gather(mesh, told), bytes.decode)):
        if answer:
            whose, why = "its file", quoted(answer)
            if rank == mesh.rank and failure:
                whose, why = str(path), failure.strerror or why
            error = CheckpointRejected(
                Party(rank) + f" could not {what} {whose} ({why}): this checkpoint is "
                "not complete; those before are as they were",
                subject="save",
                party=rank,
            )
            raise synchronized(mesh, error)


def state_to_save(module: nn.Module, optimizer: Optimizer | None, extra: Any) -> SavedState:
    """Returns what a checkpoint saves; ConfigError if it cannot be saved."""
    state = SavedState({f"model/{entry.path}": entry.tensor for entry in module_tensors(module)})
    if not any(isinstance(tensor, SecretTensor) for tensor in state.tensors.values()):
        raise ConfigError(
            "the module is not secret", remedy="torch.save is for plain ones", subject="save"
        )
    if optimizer is not None:
        optimizer_state.add_to(state, optimizer)
    try:
        state.plain["extra"] = json.loads(json.dumps(extra))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"extra is not something that JSON can hold: {error}", subject="save"
        ) from error
    return state


def _public(table: list[dict[str, Any]], plain: dict[str, Any], step: int) -> dict[str, str]:
    """Returns what must be the same at all parties."""
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
    """Loads what `save` has saved, in a session of any protocol of the same parties.

    The module has the same architecture, with any weights (or on the meta device); its parameters
    and floating buffers become secret in place, and the optimizer, made over them, goes on with the
    new ones. Shares are refreshed: together with those of the file they tell nothing. 1 round.
    Where the protocol has another form of share, the parties share what they hold anew: 1 round
    more, and a member that is new, such as a dealer, needs no file and is told what is public.
    A file that is missing, another party's, cut short, changed, or not of the same checkpoint as
    the others' is a CheckpointRejected at every party, and then nothing is loaded.
    """
    n = session.numbers
    key = n.protocol.file_key(key)
    path = checkpoint_file(folder, n.protocol.rank)
    found, refusal, header = None, None, dict[str, Any](id="", step=0, form="", parties=0)
    try:
        found, read = read_part(n, path, key)
        header = {name: read[name] for name in header}
        _check_fit(module, optimizer, found)
    except CheckpointRejected as error:
        refusal = error
    told = told_to_peers(refusal) if refusal else ""
    is_missing = refusal is not None and isinstance(refusal.__cause__, FileNotFoundError)
    answer = Answer(refusal=told, is_missing=is_missing, **header)
    saved = agree_on_saved(n, answer, refusal, path)
    if saved.lacking:
        found = public_contents(n, found, saved)
        _check_fit(module, optimizer, found)
    assert found is not None
    secrets = {name: x for name, x in found.tensors.items() if isinstance(x, Value)}
    if saved.held is None:
        fresh = {name: refresh(n, x) for name, x in secrets.items()}
    else:
        fresh = convert(n, secrets, saved.held)
    tensors = found.tensors | fresh
    _replace(n, module, optimizer, tensors)
    if optimizer is not None:
        optimizer_state.restore(n, optimizer, found.plain["optimizer"], tensors)
    return Checkpoint(saved.id, saved.step, found.plain["extra"])


def _check_fit(module: nn.Module, optimizer: Optimizer | None, found: SavedState) -> None:
    if different := _mismatch(module, optimizer, found):
        raise CheckpointRejected(different, told="it does not fit the module or optimizer")


def _mismatch(module: nn.Module, optimizer: Optimizer | None, found: SavedState) -> str | None:
    """Returns why a checkpoint does not fit the module and the optimizer, or None."""
    have = {f"model/{entry.path}": entry.tensor for entry in module_tensors(module)}
    saved = {name: x for name, x in found.tensors.items() if name.startswith("model/")}
    for name in [*have, *saved]:
        a, b = have.get(name), saved.get(name)
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            told = [f"{tuple(x.shape)}, {x.dtype}" if x is not None else "nothing" for x in (b, a)]
            where = name.removeprefix("model/")
            return f"at {where} it holds {told[0]}, and the module has {told[1]}"
    return optimizer_state.mismatch(optimizer, found.plain.get("optimizer"))


@torch.no_grad()
def _replace(
    n: Numbers, module: nn.Module, optimizer: Optimizer | None, tensors: dict[str, Any]
) -> None:
    """Overwrites secret tensors; replaces the others by secrets."""
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
        optimizer_state.replace_parameters(optimizer, replaced)
