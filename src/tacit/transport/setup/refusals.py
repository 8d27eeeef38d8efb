"""Who was turned away at the door, and why."""

from __future__ import annotations

import logging
from collections import deque

from ...errors import TransportError

_MAX_NAMED = 5  # in an error
_MAX_LOGGED = 100  # different ones; a flood of strangers is not a flood of lines
_log = logging.getLogger("tacit")


class Refusals:
    """For the log at once, and for the error of a party that waits in vain."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._last: deque[str] = deque(maxlen=_MAX_NAMED)
        self._logged: set[str] = set()

    def add(self, origin: str, error: TransportError) -> None:
        text = f"{origin} ({error})"
        self._last.append(text)
        if text not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(text)
            _log.warning("party %d refused a connection from %s: %s", self._rank, origin, error)

    def __str__(self) -> str:
        named = ", ".join(dict.fromkeys(self._last))
        return f"; refused meanwhile: {named}" if named else ""
