"""What the parties tell each other before a join: arguments, and sizes and names of the tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError, DataRejected, Party
from ...fixedpoint import Numbers
from ...transport.consensus import agree, all_gather, decode_all, synchronized
from ..files.contents import FileRejected, Options
from ..files.messages import MOST, MOST_BYTES, MOST_NAME, MOST_REASON
from .own_table import OwnTable, read_table


@dataclass(frozen=True)
class Announced:
    """What an owner tells all parties: the rows and the names of columns, or a failure."""

    rows: int = 0
    names: tuple[str, ...] = ()
    failure: str = ""


def encode(word: Announced) -> bytes:
    return json.dumps([word.rows, word.names, word.failure]).encode()


def decode(data: bytes) -> Announced:
    """Returns what was announced; ValueError for anything that `encode` would not write."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"names take more than {MOST_BYTES} bytes")
    rows, names, failure = json.loads(data.decode())
    texts = [*names, failure]
    if not (isinstance(names, list) and type(rows) is int and 0 <= rows < MOST):
        raise ValueError("rows and names are a size and a list")
    if not all(isinstance(text, str) and text.isprintable() for text in texts):
        raise ValueError("a name is a text that can be printed")
    if max(map(len, names), default=0) > MOST_NAME or len(failure) > MOST_REASON:
        raise ValueError("a text is too long")
    if len(set(names)) < len(names):
        raise ValueError("a name comes twice")
    return Announced(rows, tuple(names), failure)


def announce(
    n: Numbers,
    tables: tuple[Any, Any],
    owners: tuple[int, int],
    on: Sequence[str],
    options: Options,
    *,
    arguments: dict[str, str],
    ids_only: bool = False,
) -> tuple[OwnTable | None, tuple[Announced, Announced]]:
    """Returns this party's own table, if it has one, and what the two owners announce.

    Raises ConfigError, at every party, if arguments differ, and DataRejected if a table is not
    usable. 2 rounds of short messages.
    """
    mesh = n.protocol.context.mesh
    arguments = arguments | (options.declared or {"columns=": repr(options.columns)})
    agree(mesh, arguments, topic="join", remedy="all parties give the same arguments")
    own, word, place = None, Announced(), ""
    if n.protocol.rank in owners:
        given = tables[owners.index(n.protocol.rank)]
        own, word, place = _read(n, given, on, options, ids_only)
    words = decode_all(all_gather(mesh, encode(word)), decode)
    try:
        return own, _accepted(words, owners, n.protocol.rank, place)
    except (ConfigError, DataRejected) as error:
        raise synchronized(mesh, error.about("join")) from None


def _accepted(
    words: Sequence[Announced], owners: tuple[int, int], rank: int, place: str
) -> tuple[Announced, Announced]:
    """What both owners announced, if it is usable; else all parties raise the same.

    place: at an owner, where in its own table something is wrong.
    """
    for owner in owners:
        if words[owner].failure:
            table = "the table of " + Party(owner) + (place if owner == rank else "")
            raise DataRejected(words[owner].failure, subject=table, party=owner)
    left, right = (words[owner] for owner in owners)
    if both := [name for name in left.names if name in right.names]:
        raise ConfigError(
            f"both tables have a column {both[0]!r}",
            remedy="rename it in one of them, or leave it out",
        )
    return left, right


def _read(
    n: Numbers, given: Any, on: Sequence[str], options: Options, ids_only: bool
) -> tuple[OwnTable | None, Announced, str]:
    """The table, what is announced of it, and a text about a failure for its owner alone."""
    try:
        own = read_table(n, given, on, options, ids_only=ids_only)
        word = Announced(len(own.ids), tuple(own.names))
        try:
            decode(encode(word))
        except ValueError as error:
            raise FileRejected(f"it cannot be announced: {error}") from None
        return own, word, ""
    except FileRejected as rejection:
        where = f" ({rejection.path})" if rejection.path else ""
        return None, Announced(failure=rejection.reason[:MOST_REASON]), where + rejection.place
