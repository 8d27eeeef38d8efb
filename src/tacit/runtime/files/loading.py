"""`session.load`: one party reads a file, all parties share its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError, DataRejected, Party, ProtocolDesync
from ...fixedpoint import Numbers
from ...nn import share
from ...tables import Csv, Guess, Kind
from ...transport.consensus import all_gather, decode_all, difference, synchronized
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
    source: Any,
    owner: int,
    expected: Expectation,
    options: Options,
) -> Any:
    """Returns the owner's file or data as secrets. One round, then those of `share`."""
    contents, own, detail = None, LoadMessage(owner, expected, options.declared), ""
    if n.protocol.rank == owner:
        contents, own, detail = _read_at_owner(n, source, own, options)
    mesh = n.protocol.context.mesh
    messages = decode_all(all_gather(mesh, encode_message(own)), decode_message)
    try:
        announced = _accepted(messages, owner, detail)
    except (ConfigError, DataRejected) as error:
        raise synchronized(mesh, error.about("load")) from None
    return _share(n, announced, contents, owner)


def _read_at_owner(
    n: Numbers, source: Any, own: LoadMessage, options: Options
) -> tuple[Contents | None, LoadMessage, str]:
    """Returns the contents of the file, the message to all parties, and a text for the owner."""
    is_path = isinstance(source, str | PathLike)
    shown = source if source is None or is_path else f"a {type(source).__name__}"
    try:
        contents = read(source, options)
        announced = replace(own, announced=Announcement.of(contents))
        try:
            decode_message(encode_message(announced))
        except ValueError as error:
            raise FileRejected(f"it cannot be announced: {error}") from None
        check_values(n, contents)
        return contents, announced, f" ({shown})"
    except FileRejected as rejection:
        failed = replace(own, failure=rejection.reason[:MOST_REASON])
        return None, failed, f" ({rejection.path or shown}{rejection.place})"


def _accepted(messages: Sequence[LoadMessage], owner: int, detail: str) -> Announcement:
    """Returns what the owner announced, if all parties accept it; else all raise the same."""
    _check_agreement(messages)
    file = "the file of " + Party(owner) + detail
    if failure := messages[owner].failure:
        raise DataRejected(failure, subject=file, party=owner)
    announced = messages[owner].announced
    if announced is None:
        raise ProtocolDesync(Party(owner) + " announced nothing", subject="load", party=owner)
    for rank, message in enumerate(messages):
        difference = message.expected.difference(announced)
        if difference is not None:
            expects = file + " is not as " + Party(rank) + f" expects: {difference}"
            raise DataRejected(expects, party=owner)
    return announced


def _check_agreement(messages: Sequence[LoadMessage]) -> None:
    """Raises ConfigError if parties mean different owners, or columns of different kinds."""
    for rank, message in enumerate(messages):
        if message.owner != messages[0].owner:
            raise ConfigError(
                Party(0)
                + f" says owner={messages[0].owner}, "
                + Party(rank)
                + f" owner={message.owner}"
            )
    remedy = "every party gives the same columns="
    declared = [message.columns or {} for message in messages]
    if error := difference(declared, topic="load", remedy=remedy):
        raise error


def _share(n: Numbers, announced: Announcement, contents: Contents | None, owner: int) -> Any:
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
    """Returns what this party expects of a file, checked."""
    try:
        return read_expectation(_each(shape, list), _each(dtype, _name), limit)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{shape=}, {dtype=}, {limit=}: {error}", subject="load") from error


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: change(one) for name, one in value.items()}
    return None if value is None else change(value)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def reading_options(
    limit: int,
    *,
    columns: Any = None,
    without: Any = (),
    missing: Any = "error",
    header: Any = None,
    csv: Any = None,
    size: Any = None,
) -> Options:
    """Returns how the owner's file is to be read, checked."""
    kinds = None
    if isinstance(columns, Mapping):
        columns, kinds = list(columns), tuple(columns.values())
        if not all(isinstance(kind, Kind) for kind in kinds):
            raise _wrong(
                f"columns={kinds}", "a dict has a kind for each column, such as tables.Number()"
            )
        if missing != "error":
            raise _wrong(
                f"{missing=}",
                "a dict of columns says it for each of them, as tables.Number(missing='mean') does",
            )
    if columns is not None and not _all_of(columns, str, int):
        raise _wrong(f"{columns=}", "a list of names or numbers of columns is needed")
    if without and (columns is not None or not _all_of(without, str, int)):
        raise _wrong(
            f"{without=}", "a list of names or numbers is needed, and no columns= beside it"
        )
    Guess(missing=missing)
    if header not in (None, True, False):
        raise _wrong(f"{header=}", "allowed are None, True and False")
    if csv is not None and not isinstance(csv, Csv):
        raise _wrong(f"{csv=}", "a tacit.tables.Csv is needed")
    if size is not None and not (_all_of(size, int) and len(size) == 2 and min(size) > 0):
        raise _wrong(f"{size=}", "a height and a width in pixels are needed")
    chosen = None if columns is None else tuple(columns)
    return Options(Budget(limit), chosen, kinds, tuple(without), missing, header, csv, size)


def _wrong(reason: str, limit: str) -> ConfigError:
    return ConfigError(reason, limit=limit, subject="load")


def _all_of(values: Any, *types: type) -> bool:
    return isinstance(values, list | tuple) and bool(values) and {*map(type, values)} <= {*types}
