"""Runs in which every member of a session counts, a dealer that is no party too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tacit
from tacit import Session
from tacit.registry import PROTOCOLS


def parties_of(protocol: str = "trio") -> int:
    """Returns how many parties the protocol has, unless others are asked for."""
    return PROTOCOLS[protocol].default_parties


def run_members(program: Callable[..., Any], *args: Any, **settings: Any) -> list[Any]:
    """Returns what `program(session, *args)` returns at each member, by rank. In threads."""
    settings = {"parties": parties_of(settings.get("protocol", "trio")), **settings}
    found: dict[int, Any] = {}

    def main(session: Session) -> None:
        found[session.rank] = program(session, *args)

    tacit.run(main, **settings)
    return [found[rank] for rank in sorted(found)]
