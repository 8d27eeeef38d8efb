"""Errors that call parties by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...errors import Error

_PARTY = re.compile(r"\bparty (\d+)\b(?: \(([^()]*)\))?")


def party_label(rank: int, names: Sequence[str]) -> str:
    return f"party {rank} ({names[rank]})"


def put_names(error: BaseException, names: Sequence[str]) -> None:
    """Adds the names of parties where the message of an error of Tacit has their ranks.

    The party at fault is named in any case.
    """
    if not isinstance(error, Error) or not error.args or not isinstance(error.args[0], str):
        return
    text = _PARTY.sub(lambda found: _label(found, names), error.args[0])
    if error.party is not None and f"party {error.party}" not in text:
        text = f"{party_label(error.party, names)}: {text}"
    error.args = (text,)


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
