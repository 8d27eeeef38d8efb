"""Programs that differ between parties: each of them is to find it, and to be given no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tacit
from tacit.errors import PublicMismatch
from tacit.runtime.session import Session

Give = Callable[[Any], None]
PROTOCOLS = ("trio", "replicated", "cleartext")


def attempted(s: Session, case: Callable[[Session, Give], None]) -> tuple[Any, list[Any]]:
    """The error that a party raises, and the values that its program was given."""
    given: list[Any] = []
    try:
        s.mesh.compare()  # a party that is still starting would raise before its program runs
        case(s, lambda value: given.append(value) if value is not None else None)
        s.close()
    except PublicMismatch as error:
        error.names = s.names
        return error, given
    return None, given


def check(case: Callable[[Session, Give], None], protocol: str = "trio") -> list[PublicMismatch]:
    """Runs a program; every party raises PublicMismatch and is given no value."""
    outcomes = tacit.run(attempted, case, protocol=protocol, names=("ann", "bob", "cyd"))
    for error, given in outcomes:
        assert isinstance(error, PublicMismatch)
        assert not given
        assert "session.share(model)" in str(error)  # the usual causes
    return [error for error, _ in outcomes]
