"""Errors that call parties by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..errors import Error

_PARTY = re.compile(r"\bparty (\d+)\b(?: \(([^()]*)\))?")


def party_label(rank: int, names: Sequence[str]) -> str:
    return f"party {rank} ({names[rank]})"


def put_names(error: BaseException, names: Sequence[str]) -> None:
    """Adds the names of parties where the message of an error of Tacit has their ranks."""
    if isinstance(error, Error) and error.args and isinstance(error.args[0], str):
        error.args = (_PARTY.sub(lambda found: _label(found, names), error.args[0]),)


def _label(found: re.Match[str], names: Sequence[str]) -> str:
    rank, beside = int(found[1]), found[2]
    if rank >= len(names) or (beside or "").partition(",")[0] == names[rank]:
        return found[0]
    return f"party {rank} ({names[rank]}{f', {beside}' if beside else ''})"


@contextmanager
def named(names: Sequence[str]) -> Iterator[None]:
    """Within, errors call the parties by these names."""
    try:
        yield
    except Error as error:
        put_names(error, names)
        raise
