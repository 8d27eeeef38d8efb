"""`session.load`: one party reads a file, all parties share its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError, DataRejected, ProtocolDesync
from ...fixedpoint import Numbers
from ...nn import share
from ...transport.consensus import all_gather, decode_all, synchronized
from .announcement import Announcement, Expectation
from .contents import Budget, Contents, FileRejected, Options
from .messages import MOST_REASON, LoadMessage, decode_message, encode_message, read_expectation
from .pictures import Pictures
from .reading import check_values, read

LIMIT = 1 << 32  # bytes of a file's tensors; also of one message

Shape = Sequence[int | None]
Shapes = Shape | Mapping[str, Shape] | None
Dtypes = torch.dtype | Mapping[str, torch.dtype] | None


def load(
    n: Numbers,
    path: str | Path | None,
    owner: int,
    expected: Expectation,
    options: Options,
    names: Sequence[str],
) -> Any:
    """The owner's file as secrets; `names` are the parties'. One round, then what `share` takes."""
    contents, word, detail = None, LoadMessage(owner, expected), ""
    if n.protocol.rank == owner:
        contents, word, detail = _read_at_owner(n, path, word, options)
    mesh = n.protocol.context.mesh
    words = decode_all(all_gather(mesh, encode_message(word)), decode_message)
    parties = [f"party {rank} ({name})" for rank, name in enumerate(names)]
    try:
        announced = _accepted(words, owner, parties, detail)
    except (ConfigError, DataRejected) as error:
        raise synchronized(mesh, error) from None
    return _shared(n, announced, contents, owner)


def _read_at_owner(
    n: Numbers, path: str | Path | None, word: LoadMessage, options: Options
) -> tuple[Contents | None, LoadMessage, str]:
    """What the file holds, what the others are told of it, and what only its owner is."""
    try:
        contents = read(path, options)
        announced = LoadMessage(word.owner, word.expected, Announcement.of(contents))
        try:
            decode_message(encode_message(announced))
        except ValueError as error:
            raise FileRejected(f"it cannot be announced: {error}") from None
        check_values(n, contents)
        return contents, announced, f" ({path})"
    except FileRejected as refusal:
        failed = LoadMessage(word.owner, word.expected, failure=refusal.reason[:MOST_REASON])
        return None, failed, f" ({refusal.path or path})"


def _accepted(
    words: Sequence[LoadMessage], owner: int, parties: Sequence[str], detail: str
) -> Announcement:
    """What the owner announced, if everybody is content with it; or the same error at all."""
    for party, word in zip(parties, words, strict=True):
        if word.owner != words[0].owner:
            raise ConfigError(
                f"{parties[0]} says owner={words[0].owner}, {party} owner={word.owner}",
                subject="load",
            )
    theirs = f"load: the file of {parties[owner]}{detail}"
    if words[owner].failure:
        raise DataRejected(f"{theirs}: {words[owner].failure}", party=owner)
    announced = words[owner].announced
    if announced is None:
        raise ProtocolDesync(f"{parties[owner]} announced nothing", subject="load", party=owner)
    for party, word in zip(parties, words, strict=True):
        difference = word.expected.difference(announced)
        if difference is not None:
            raise DataRejected(f"{theirs} is not as {party} expects: {difference}", party=owner)
    return announced


def _shared(n: Numbers, announced: Announcement, contents: Contents | None, owner: int) -> Any:
    if contents is not None:
        tensors: dict[str, Tensor] = dict(contents.tensors)
    else:
        tensors = {
            entry.name: torch.empty(entry.shape, dtype=entry.dtype, device="meta")
            for entry in announced.entries
        }
    if announced.form == "tensor":
        return share(n, next(iter(tensors.values())), owner)
    secrets = share(n, tensors, owner)
    if announced.form == "pictures":
        return Pictures(secrets["images"], secrets["labels"], announced.classes)
    return secrets


# Arguments of session.load ----------------------------------------------------------------------


def expectation(shape: Shapes, dtype: Dtypes, limit: int) -> Expectation:
    """What a party expects of a file."""
    try:
        return read_expectation(_each(shape, list), _each(dtype, _name), limit)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"shape={shape!r}, dtype={dtype!r}, limit={limit!r}: {error}", subject="load"
        ) from error


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: change(one) for name, one in value.items()}
    return None if value is None else change(value)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def reading_options(columns: Any, header: Any, size: Any, limit: int) -> Options:
    """How the owner's file is to be read."""
    if columns is not None and not _all_of(columns, str, int):
        raise ConfigError(
            f"columns={columns!r}",
            subject="load",
            limit="a list of names or numbers of columns is needed",
        )
    if header not in (None, True, False):
        raise ConfigError(
            f"header={header!r}", subject="load", limit="allowed are None, True and False"
        )
    if size is not None and not (_all_of(size, int) and len(size) == 2 and min(size) > 0):
        raise ConfigError(
            f"size={size!r}", subject="load", limit="a height and a width in pixels are needed"
        )
    chosen = None if columns is None else tuple(columns)
    return Options(Budget(limit), chosen, header, size)


def _all_of(values: Any, *types: type) -> bool:
    return isinstance(values, list | tuple) and bool(values) and {*map(type, values)} <= {*types}
