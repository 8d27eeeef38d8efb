"""What the parties of the tests of ranges run; other processes can import it."""

from __future__ import annotations

import copy
from typing import Any

from tacit import Session
from tacit.transport.consensus import all_gather


def parties_of_bad_input(
    session: Session, value: Any, owner: int, seen: dict[int, Any] | None = None
) -> None:
    """Shares a value; notes the bytes that this party sent since, and its error."""
    before = 0
    try:
        all_gather(session.mesh, b"all are here")
        before = session.stats.bytes_sent
        session.share(copy.deepcopy(value), owner=owner)
        all_gather(session.mesh, b"shared")
    except BaseException as error:
        if seen is not None:
            seen[session.rank] = session.stats.bytes_sent - before, error
        raise
